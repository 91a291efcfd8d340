module @tt {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x6xf32>, %arg2: tensor<4x6xf32>, %arg3: tensor<4x6xf32>, %arg4: tensor<4x6xf32>, %arg5: tensor<4x6xf32>, %arg6: tensor<4x6xf32>, %arg7: tensor<4x6xf32>, %arg8: tensor<4x6xf32>, %arg9: tensor<24xf32>, %arg10: tensor<4x6xf32>, %arg11: tensor<6x6xf32>, %arg12: tensor<4x6xf32>, %arg13: tensor<10xf32>, %arg14: tensor<2x3xcomplex<f32>>, %arg15: tensor<2x3x2xf32>, %arg16: tensor<4x6xf32>, %arg17: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<6x4xf32>, tensor<24xf32>, tensor<4x2x3xf32>, tensor<6xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<4x2xf32>, tensor<3x4x6xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<6xf32>, tensor<3x2xf32>, tensor<8x3xf32>, tensor<2x3x2xf32>, tensor<2x3xcomplex<f32>>, tensor<6xi32>, tensor<0x6xf32>) {
    %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
    %1 = stablehlo.reshape %arg2 : (tensor<4x6xf32>) -> tensor<24xf32>
    %2 = stablehlo.reshape %arg3 : (tensor<4x6xf32>) -> tensor<4x2x3xf32>
    %3 = stablehlo.slice %arg4 [2:3, 0:6] : (tensor<4x6xf32>) -> tensor<1x6xf32>
    %4 = stablehlo.reshape %3 : (tensor<1x6xf32>) -> tensor<6xf32>
    %5 = stablehlo.slice %arg5 [0:4, 5:6] : (tensor<4x6xf32>) -> tensor<4x1xf32>
    %6 = stablehlo.reshape %5 : (tensor<4x1xf32>) -> tensor<4xf32>
    %7 = stablehlo.slice %arg6 [1:4:2, 1:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32>
    %8 = stablehlo.slice %arg7 [0:4, 2:4] : (tensor<4x6xf32>) -> tensor<4x2xf32>
    %9 = stablehlo.broadcast_in_dim %arg8, dims = [1, 2] : (tensor<4x6xf32>) -> tensor<3x4x6xf32>
    %10 = stablehlo.reshape %arg9 : (tensor<24xf32>) -> tensor<4x6xf32>
    %11 = stablehlo.slice %10 [1:3, 1:4] : (tensor<4x6xf32>) -> tensor<2x3xf32>
    %12 = stablehlo.reshape %arg10 : (tensor<4x6xf32>) -> tensor<24xf32>
    %13 = stablehlo.slice %12 [2:9:2] : (tensor<24xf32>) -> tensor<4xf32>
    %14 = stablehlo.reshape %arg11 : (tensor<6x6xf32>) -> tensor<36xf32>
    %15 = stablehlo.slice %14 [0:36:7] : (tensor<36xf32>) -> tensor<6xf32>
    %16 = stablehlo.reshape %arg12 : (tensor<4x6xf32>) -> tensor<24xf32>
    %17 = stablehlo.slice %16 [1:14] : (tensor<24xf32>) -> tensor<13xf32>
    %18 = stablehlo.constant dense<0.0> : tensor<f32>
    %19 = stablehlo.pad %17, %18, low = [0], high = [2], interior = [0] : (tensor<13xf32>, tensor<f32>) -> tensor<15xf32>
    %20 = stablehlo.reshape %19 : (tensor<15xf32>) -> tensor<3x5xf32>
    %21 = stablehlo.slice %20 [0:3, 0:3] : (tensor<3x5xf32>) -> tensor<3x3xf32>
    %22 = stablehlo.slice %21 [0:3, 0:3:2] : (tensor<3x3xf32>) -> tensor<3x2xf32>
    %23 = stablehlo.iota dim = 0 : tensor<8x3xi32>
    %24 = stablehlo.iota dim = 1 : tensor<8x3xi32>
    %25 = stablehlo.add %24, %23 : tensor<8x3xi32>
    %26 = "stablehlo.gather"(%arg13, %25) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1>} : (tensor<10xf32>, tensor<8x3xi32>) -> tensor<8x3xf32>
    %27 = "stablehlo.real"(%arg14) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %28 = stablehlo.reshape %27 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %29 = "stablehlo.imag"(%arg14) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %30 = stablehlo.reshape %29 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %31 = stablehlo.concatenate %28, %30, dim = 2 : (tensor<2x3x1xf32>, tensor<2x3x1xf32>) -> tensor<2x3x2xf32>
    %32 = stablehlo.slice %arg15 [0:2, 0:3, 0:1] : (tensor<2x3x2xf32>) -> tensor<2x3x1xf32>
    %33 = stablehlo.reshape %32 : (tensor<2x3x1xf32>) -> tensor<2x3xf32>
    %34 = stablehlo.slice %arg15 [0:2, 0:3, 1:2] : (tensor<2x3x2xf32>) -> tensor<2x3x1xf32>
    %35 = stablehlo.reshape %34 : (tensor<2x3x1xf32>) -> tensor<2x3xf32>
    %36 = "stablehlo.complex"(%33, %35) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xcomplex<f32>>
    %37 = "stablehlo.bitcast_convert"(%arg16) : (tensor<4x6xf32>) -> tensor<4x6xi32>
    %38 = stablehlo.slice %37 [2:3, 0:6] : (tensor<4x6xi32>) -> tensor<1x6xi32>
    %39 = stablehlo.reshape %38 : (tensor<1x6xi32>) -> tensor<6xi32>
    %40 = stablehlo.constant dense<0.0> : tensor<0x6xf32>
    return %arg0, %0, %1, %2, %4, %6, %7, %8, %9, %11, %13, %15, %22, %26, %31, %36, %39, %40 : tensor<4x6xf32>, tensor<6x4xf32>, tensor<24xf32>, tensor<4x2x3xf32>, tensor<6xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<4x2xf32>, tensor<3x4x6xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<6xf32>, tensor<3x2xf32>, tensor<8x3xf32>, tensor<2x3x2xf32>, tensor<2x3xcomplex<f32>>, tensor<6xi32>, tensor<0x6xf32>
  }
}
