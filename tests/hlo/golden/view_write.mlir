module @tt {
  func.func public @main(%arg0: tensor<4x6xf32>, %arg1: tensor<4x6xf32>, %arg2: tensor<4x6xf32>, %arg3: tensor<6x4xf32>, %arg4: tensor<4x6xf32>, %arg5: tensor<24xf32>, %arg6: tensor<4x6xf32>, %arg7: tensor<4x2x3xf32>, %arg8: tensor<4x6xf32>, %arg9: tensor<6xf32>, %arg10: tensor<4x6xf32>, %arg11: tensor<4xf32>, %arg12: tensor<4x6xf32>, %arg13: tensor<2x3xf32>, %arg14: tensor<4x6xf32>, %arg15: tensor<4x2xf32>, %arg16: tensor<4x6xf32>, %arg17: tensor<3x4x6xf32>, %arg18: tensor<24xf32>, %arg19: tensor<2x3xf32>, %arg20: tensor<4x6xf32>, %arg21: tensor<4xf32>, %arg22: tensor<6x6xf32>, %arg23: tensor<6xf32>, %arg24: tensor<4x6xf32>, %arg25: tensor<3x2xf32>, %arg26: tensor<10xf32>, %arg27: tensor<8x3xf32>, %arg28: tensor<2x3xcomplex<f32>>, %arg29: tensor<2x3x2xf32>, %arg30: tensor<2x3x2xf32>, %arg31: tensor<2x3xcomplex<f32>>, %arg32: tensor<4x6xf32>, %arg33: tensor<6xi32>, %arg34: tensor<4x6xf32>, %arg35: tensor<0x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<4x6xf32>, tensor<10xf32>, tensor<2x3xcomplex<f32>>, tensor<2x3x2xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
    %0 = stablehlo.transpose %arg3, dims = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
    %1 = stablehlo.reshape %arg5 : (tensor<24xf32>) -> tensor<4x6xf32>
    %2 = stablehlo.reshape %arg7 : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
    %3 = stablehlo.reshape %arg9 : (tensor<6xf32>) -> tensor<1x6xf32>
    %4 = stablehlo.constant dense<2> : tensor<i32>
    %5 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.dynamic_update_slice %arg8, %3, %4, %5 : (tensor<4x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %7 = stablehlo.reshape %arg11 : (tensor<4xf32>) -> tensor<4x1xf32>
    %8 = stablehlo.constant dense<5> : tensor<i32>
    %9 = stablehlo.dynamic_update_slice %arg10, %7, %5, %8 : (tensor<4x6xf32>, tensor<4x1xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %10 = stablehlo.slice %arg12 [1:4, 1:6] : (tensor<4x6xf32>) -> tensor<3x5xf32>
    %11 = stablehlo.iota dim = 0 : tensor<3x5xi32>
    %12 = stablehlo.constant dense<0> : tensor<3x5xi32>
    %13 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<3x5xi32>
    %14 = stablehlo.remainder %11, %13 : tensor<3x5xi32>
    %15 = stablehlo.compare EQ, %14, %12 : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<3x5xi1>
    %16 = stablehlo.iota dim = 1 : tensor<3x5xi32>
    %17 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<3x5xi32>
    %18 = stablehlo.remainder %16, %17 : tensor<3x5xi32>
    %19 = stablehlo.compare EQ, %18, %12 : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<3x5xi1>
    %20 = stablehlo.and %15, %19 : tensor<3x5xi1>
    %21 = stablehlo.constant dense<0.0> : tensor<f32>
    %22 = stablehlo.pad %arg13, %21, low = [0, 0], high = [0, 0], interior = [1, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x5xf32>
    %23 = stablehlo.select %20, %22, %10 : tensor<3x5xi1>, tensor<3x5xf32>
    %24 = stablehlo.constant dense<1> : tensor<i32>
    %25 = stablehlo.dynamic_update_slice %arg12, %23, %24, %24 : (tensor<4x6xf32>, tensor<3x5xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %26 = stablehlo.dynamic_update_slice %arg14, %arg15, %5, %4 : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %27 = stablehlo.slice %arg17 [0:1, 0:4, 0:6] : (tensor<3x4x6xf32>) -> tensor<1x4x6xf32>
    %28 = stablehlo.reshape %27 : (tensor<1x4x6xf32>) -> tensor<4x6xf32>
    %29 = stablehlo.reshape %arg18 : (tensor<24xf32>) -> tensor<4x6xf32>
    %30 = stablehlo.dynamic_update_slice %29, %arg19, %24, %24 : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %31 = stablehlo.reshape %30 : (tensor<4x6xf32>) -> tensor<24xf32>
    %32 = stablehlo.reshape %arg20 : (tensor<4x6xf32>) -> tensor<24xf32>
    %33 = stablehlo.slice %32 [2:9] : (tensor<24xf32>) -> tensor<7xf32>
    %34 = stablehlo.iota dim = 0 : tensor<7xi32>
    %35 = stablehlo.constant dense<0> : tensor<7xi32>
    %36 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %37 = stablehlo.remainder %34, %36 : tensor<7xi32>
    %38 = stablehlo.compare EQ, %37, %35 : (tensor<7xi32>, tensor<7xi32>) -> tensor<7xi1>
    %39 = stablehlo.pad %arg21, %21, low = [0], high = [0], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
    %40 = stablehlo.select %38, %39, %33 : tensor<7xi1>, tensor<7xf32>
    %41 = stablehlo.dynamic_update_slice %32, %40, %4 : (tensor<24xf32>, tensor<7xf32>, tensor<i32>) -> tensor<24xf32>
    %42 = stablehlo.reshape %41 : (tensor<24xf32>) -> tensor<4x6xf32>
    %43 = stablehlo.reshape %arg22 : (tensor<6x6xf32>) -> tensor<36xf32>
    %44 = stablehlo.iota dim = 0 : tensor<36xi32>
    %45 = stablehlo.constant dense<0> : tensor<36xi32>
    %46 = stablehlo.constant dense<7> : tensor<i32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<i32>) -> tensor<36xi32>
    %48 = stablehlo.remainder %44, %47 : tensor<36xi32>
    %49 = stablehlo.compare EQ, %48, %45 : (tensor<36xi32>, tensor<36xi32>) -> tensor<36xi1>
    %50 = stablehlo.pad %arg23, %21, low = [0], high = [0], interior = [6] : (tensor<6xf32>, tensor<f32>) -> tensor<36xf32>
    %51 = stablehlo.select %49, %50, %43 : tensor<36xi1>, tensor<36xf32>
    %52 = stablehlo.reshape %51 : (tensor<36xf32>) -> tensor<6x6xf32>
    %53 = stablehlo.reshape %arg24 : (tensor<4x6xf32>) -> tensor<24xf32>
    %54 = stablehlo.slice %53 [1:14] : (tensor<24xf32>) -> tensor<13xf32>
    %55 = stablehlo.pad %54, %21, low = [0], high = [2], interior = [0] : (tensor<13xf32>, tensor<f32>) -> tensor<15xf32>
    %56 = stablehlo.reshape %55 : (tensor<15xf32>) -> tensor<3x5xf32>
    %57 = stablehlo.slice %56 [0:3, 3:5] : (tensor<3x5xf32>) -> tensor<3x2xf32>
    %58 = stablehlo.slice %56 [0:3, 0:3] : (tensor<3x5xf32>) -> tensor<3x3xf32>
    %59 = stablehlo.iota dim = 1 : tensor<3x3xi32>
    %60 = stablehlo.constant dense<0> : tensor<3x3xi32>
    %61 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %62 = stablehlo.remainder %59, %61 : tensor<3x3xi32>
    %63 = stablehlo.compare EQ, %62, %60 : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %64 = stablehlo.pad %arg25, %21, low = [0, 0], high = [0, 0], interior = [0, 1] : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x3xf32>
    %65 = stablehlo.select %63, %64, %58 : tensor<3x3xi1>, tensor<3x3xf32>
    %66 = stablehlo.concatenate %65, %57, dim = 1 : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x5xf32>
    %67 = stablehlo.reshape %66 : (tensor<3x5xf32>) -> tensor<15xf32>
    %68 = stablehlo.slice %67 [0:13] : (tensor<15xf32>) -> tensor<13xf32>
    %69 = stablehlo.dynamic_update_slice %53, %68, %24 : (tensor<24xf32>, tensor<13xf32>, tensor<i32>) -> tensor<24xf32>
    %70 = stablehlo.reshape %69 : (tensor<24xf32>) -> tensor<4x6xf32>
    %71 = stablehlo.iota dim = 0 : tensor<8x3xi32>
    %72 = stablehlo.iota dim = 1 : tensor<8x3xi32>
    %73 = stablehlo.add %72, %71 : tensor<8x3xi32>
    %74 = "stablehlo.scatter"(%arg26, %73, %arg27) ({
    ^bb0(%75: tensor<f32>, %76: tensor<f32>):
      stablehlo.return %76 : tensor<f32>
    }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = false} : (tensor<10xf32>, tensor<8x3xi32>, tensor<8x3xf32>) -> tensor<10xf32>
    %77 = stablehlo.slice %arg29 [0:2, 0:3, 0:1] : (tensor<2x3x2xf32>) -> tensor<2x3x1xf32>
    %78 = stablehlo.reshape %77 : (tensor<2x3x1xf32>) -> tensor<2x3xf32>
    %79 = stablehlo.slice %arg29 [0:2, 0:3, 1:2] : (tensor<2x3x2xf32>) -> tensor<2x3x1xf32>
    %80 = stablehlo.reshape %79 : (tensor<2x3x1xf32>) -> tensor<2x3xf32>
    %81 = "stablehlo.complex"(%78, %80) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xcomplex<f32>>
    %82 = "stablehlo.real"(%arg31) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %83 = stablehlo.reshape %82 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %84 = "stablehlo.imag"(%arg31) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %85 = stablehlo.reshape %84 : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
    %86 = stablehlo.concatenate %83, %85, dim = 2 : (tensor<2x3x1xf32>, tensor<2x3x1xf32>) -> tensor<2x3x2xf32>
    %87 = "stablehlo.bitcast_convert"(%arg32) : (tensor<4x6xf32>) -> tensor<4x6xi32>
    %88 = stablehlo.reshape %arg33 : (tensor<6xi32>) -> tensor<1x6xi32>
    %89 = stablehlo.dynamic_update_slice %87, %88, %4, %5 : (tensor<4x6xi32>, tensor<1x6xi32>, tensor<i32>, tensor<i32>) -> tensor<4x6xi32>
    %90 = "stablehlo.bitcast_convert"(%89) : (tensor<4x6xi32>) -> tensor<4x6xf32>
    return %arg1, %0, %1, %2, %6, %9, %25, %26, %28, %31, %42, %52, %70, %74, %81, %86, %90, %arg34 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<4x6xf32>, tensor<10xf32>, tensor<2x3xcomplex<f32>>, tensor<2x3x2xf32>, tensor<4x6xf32>, tensor<4x6xf32>
  }
}
