module @tt {
  func.func public @main(%arg0: tensor<i64>, %arg1: tensor<4x6xf32>, %arg2: tensor<4x6xf32>, %arg3: tensor<4x6xf32>, %arg4: tensor<4x6xf32>, %arg5: tensor<24xf32>, %arg6: tensor<4x6xf32>, %arg7: tensor<4x6xf32>, %arg8: tensor<10xf32>, %arg9: tensor<4x6xf32>) -> (tensor<6xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<4x2xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<3x2xf32>, tensor<8x3xf32>, tensor<6xi32>) {
    %0 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %1 = stablehlo.constant dense<6> : tensor<i32>
    %2 = stablehlo.divide %0, %1 : tensor<i32>
    %3 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.dynamic_slice %arg1, %2, %3, sizes = [1, 6] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<1x6xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x6xf32>) -> tensor<6xf32>
    %6 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %7 = stablehlo.dynamic_slice %arg2, %3, %6, sizes = [4, 1] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x1xf32>
    %8 = stablehlo.reshape %7 : (tensor<4x1xf32>) -> tensor<4xf32>
    %9 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %10 = stablehlo.divide %9, %1 : tensor<i32>
    %11 = stablehlo.remainder %9, %1 : tensor<i32>
    %12 = stablehlo.dynamic_slice %arg3, %10, %11, sizes = [3, 5] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<3x5xf32>
    %13 = stablehlo.slice %12 [0:3:2, 0:5:2] : (tensor<3x5xf32>) -> tensor<2x3xf32>
    %14 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %15 = stablehlo.dynamic_slice %arg4, %3, %14, sizes = [4, 2] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %16 = stablehlo.reshape %arg5 : (tensor<24xf32>) -> tensor<4x6xf32>
    %17 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %18 = stablehlo.divide %17, %1 : tensor<i32>
    %19 = stablehlo.remainder %17, %1 : tensor<i32>
    %20 = stablehlo.dynamic_slice %16, %18, %19, sizes = [2, 3] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %21 = stablehlo.reshape %arg6 : (tensor<4x6xf32>) -> tensor<24xf32>
    %22 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %23 = stablehlo.dynamic_slice %21, %22, sizes = [7] : (tensor<24xf32>, tensor<i32>) -> tensor<7xf32>
    %24 = stablehlo.slice %23 [0:7:2] : (tensor<7xf32>) -> tensor<4xf32>
    %25 = stablehlo.reshape %arg7 : (tensor<4x6xf32>) -> tensor<24xf32>
    %26 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %27 = stablehlo.dynamic_slice %25, %26, sizes = [13] : (tensor<24xf32>, tensor<i32>) -> tensor<13xf32>
    %28 = stablehlo.constant dense<0.0> : tensor<f32>
    %29 = stablehlo.pad %27, %28, low = [0], high = [2], interior = [0] : (tensor<13xf32>, tensor<f32>) -> tensor<15xf32>
    %30 = stablehlo.reshape %29 : (tensor<15xf32>) -> tensor<3x5xf32>
    %31 = stablehlo.slice %30 [0:3, 0:3] : (tensor<3x5xf32>) -> tensor<3x3xf32>
    %32 = stablehlo.slice %31 [0:3, 0:3:2] : (tensor<3x3xf32>) -> tensor<3x2xf32>
    %33 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %34 = stablehlo.iota dim = 0 : tensor<8x3xi32>
    %35 = stablehlo.broadcast_in_dim %33, dims = [] : (tensor<i32>) -> tensor<8x3xi32>
    %36 = stablehlo.add %34, %35 : tensor<8x3xi32>
    %37 = stablehlo.iota dim = 1 : tensor<8x3xi32>
    %38 = stablehlo.add %37, %36 : tensor<8x3xi32>
    %39 = "stablehlo.gather"(%arg8, %38) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1>} : (tensor<10xf32>, tensor<8x3xi32>) -> tensor<8x3xf32>
    %40 = "stablehlo.bitcast_convert"(%arg9) : (tensor<4x6xf32>) -> tensor<4x6xi32>
    %41 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %42 = stablehlo.divide %41, %1 : tensor<i32>
    %43 = stablehlo.dynamic_slice %40, %42, %3, sizes = [1, 6] : (tensor<4x6xi32>, tensor<i32>, tensor<i32>) -> tensor<1x6xi32>
    %44 = stablehlo.reshape %43 : (tensor<1x6xi32>) -> tensor<6xi32>
    return %5, %8, %13, %15, %20, %24, %32, %39, %44 : tensor<6xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<4x2xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<3x2xf32>, tensor<8x3xf32>, tensor<6xi32>
  }
}
