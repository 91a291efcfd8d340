module @tt {
  func.func public @main(%arg0: tensor<i64>, %arg1: tensor<4x6xf32>, %arg2: tensor<6xf32>, %arg3: tensor<4x6xf32>, %arg4: tensor<4xf32>, %arg5: tensor<4x6xf32>, %arg6: tensor<2x3xf32>, %arg7: tensor<4x6xf32>, %arg8: tensor<4x2xf32>, %arg9: tensor<24xf32>, %arg10: tensor<2x3xf32>, %arg11: tensor<4x6xf32>, %arg12: tensor<4xf32>, %arg13: tensor<4x6xf32>, %arg14: tensor<3x2xf32>, %arg15: tensor<10xf32>, %arg16: tensor<8x3xf32>, %arg17: tensor<4x6xf32>, %arg18: tensor<6xi32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<10xf32>, tensor<4x6xf32>) {
    %0 = stablehlo.reshape %arg2 : (tensor<6xf32>) -> tensor<1x6xf32>
    %1 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %2 = stablehlo.constant dense<6> : tensor<i32>
    %3 = stablehlo.divide %1, %2 : tensor<i32>
    %4 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.dynamic_update_slice %arg1, %0, %3, %4 : (tensor<4x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %6 = stablehlo.reshape %arg4 : (tensor<4xf32>) -> tensor<4x1xf32>
    %7 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %8 = stablehlo.dynamic_update_slice %arg3, %6, %4, %7 : (tensor<4x6xf32>, tensor<4x1xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %9 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %10 = stablehlo.divide %9, %2 : tensor<i32>
    %11 = stablehlo.remainder %9, %2 : tensor<i32>
    %12 = stablehlo.dynamic_slice %arg5, %10, %11, sizes = [3, 5] : (tensor<4x6xf32>, tensor<i32>, tensor<i32>) -> tensor<3x5xf32>
    %13 = stablehlo.iota dim = 0 : tensor<3x5xi32>
    %14 = stablehlo.constant dense<0> : tensor<3x5xi32>
    %15 = stablehlo.constant dense<2> : tensor<i32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<i32>) -> tensor<3x5xi32>
    %17 = stablehlo.remainder %13, %16 : tensor<3x5xi32>
    %18 = stablehlo.compare EQ, %17, %14 : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<3x5xi1>
    %19 = stablehlo.iota dim = 1 : tensor<3x5xi32>
    %20 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<i32>) -> tensor<3x5xi32>
    %21 = stablehlo.remainder %19, %20 : tensor<3x5xi32>
    %22 = stablehlo.compare EQ, %21, %14 : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<3x5xi1>
    %23 = stablehlo.and %18, %22 : tensor<3x5xi1>
    %24 = stablehlo.constant dense<0.0> : tensor<f32>
    %25 = stablehlo.pad %arg6, %24, low = [0, 0], high = [0, 0], interior = [1, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x5xf32>
    %26 = stablehlo.select %23, %25, %12 : tensor<3x5xi1>, tensor<3x5xf32>
    %27 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %28 = stablehlo.divide %27, %2 : tensor<i32>
    %29 = stablehlo.remainder %27, %2 : tensor<i32>
    %30 = stablehlo.dynamic_update_slice %arg5, %26, %28, %29 : (tensor<4x6xf32>, tensor<3x5xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %31 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %32 = stablehlo.dynamic_update_slice %arg7, %arg8, %4, %31 : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %33 = stablehlo.reshape %arg9 : (tensor<24xf32>) -> tensor<4x6xf32>
    %34 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %35 = stablehlo.divide %34, %2 : tensor<i32>
    %36 = stablehlo.remainder %34, %2 : tensor<i32>
    %37 = stablehlo.dynamic_update_slice %33, %arg10, %35, %36 : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
    %38 = stablehlo.reshape %37 : (tensor<4x6xf32>) -> tensor<24xf32>
    %39 = stablehlo.reshape %arg11 : (tensor<4x6xf32>) -> tensor<24xf32>
    %40 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %41 = stablehlo.dynamic_slice %39, %40, sizes = [7] : (tensor<24xf32>, tensor<i32>) -> tensor<7xf32>
    %42 = stablehlo.iota dim = 0 : tensor<7xi32>
    %43 = stablehlo.constant dense<0> : tensor<7xi32>
    %44 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %45 = stablehlo.remainder %42, %44 : tensor<7xi32>
    %46 = stablehlo.compare EQ, %45, %43 : (tensor<7xi32>, tensor<7xi32>) -> tensor<7xi1>
    %47 = stablehlo.pad %arg12, %24, low = [0], high = [0], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
    %48 = stablehlo.select %46, %47, %41 : tensor<7xi1>, tensor<7xf32>
    %49 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %50 = stablehlo.dynamic_update_slice %39, %48, %49 : (tensor<24xf32>, tensor<7xf32>, tensor<i32>) -> tensor<24xf32>
    %51 = stablehlo.reshape %50 : (tensor<24xf32>) -> tensor<4x6xf32>
    %52 = stablehlo.reshape %arg13 : (tensor<4x6xf32>) -> tensor<24xf32>
    %53 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %54 = stablehlo.dynamic_slice %52, %53, sizes = [13] : (tensor<24xf32>, tensor<i32>) -> tensor<13xf32>
    %55 = stablehlo.pad %54, %24, low = [0], high = [2], interior = [0] : (tensor<13xf32>, tensor<f32>) -> tensor<15xf32>
    %56 = stablehlo.reshape %55 : (tensor<15xf32>) -> tensor<3x5xf32>
    %57 = stablehlo.slice %56 [0:3, 3:5] : (tensor<3x5xf32>) -> tensor<3x2xf32>
    %58 = stablehlo.slice %56 [0:3, 0:3] : (tensor<3x5xf32>) -> tensor<3x3xf32>
    %59 = stablehlo.iota dim = 1 : tensor<3x3xi32>
    %60 = stablehlo.constant dense<0> : tensor<3x3xi32>
    %61 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<i32>) -> tensor<3x3xi32>
    %62 = stablehlo.remainder %59, %61 : tensor<3x3xi32>
    %63 = stablehlo.compare EQ, %62, %60 : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %64 = stablehlo.pad %arg14, %24, low = [0, 0], high = [0, 0], interior = [0, 1] : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x3xf32>
    %65 = stablehlo.select %63, %64, %58 : tensor<3x3xi1>, tensor<3x3xf32>
    %66 = stablehlo.concatenate %65, %57, dim = 1 : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x5xf32>
    %67 = stablehlo.reshape %66 : (tensor<3x5xf32>) -> tensor<15xf32>
    %68 = stablehlo.slice %67 [0:13] : (tensor<15xf32>) -> tensor<13xf32>
    %69 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %70 = stablehlo.dynamic_update_slice %52, %68, %69 : (tensor<24xf32>, tensor<13xf32>, tensor<i32>) -> tensor<24xf32>
    %71 = stablehlo.reshape %70 : (tensor<24xf32>) -> tensor<4x6xf32>
    %72 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %73 = stablehlo.iota dim = 0 : tensor<8x3xi32>
    %74 = stablehlo.broadcast_in_dim %72, dims = [] : (tensor<i32>) -> tensor<8x3xi32>
    %75 = stablehlo.add %73, %74 : tensor<8x3xi32>
    %76 = stablehlo.iota dim = 1 : tensor<8x3xi32>
    %77 = stablehlo.add %76, %75 : tensor<8x3xi32>
    %78 = "stablehlo.scatter"(%arg15, %77, %arg16) ({
    ^bb0(%79: tensor<f32>, %80: tensor<f32>):
      stablehlo.return %80 : tensor<f32>
    }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = false} : (tensor<10xf32>, tensor<8x3xi32>, tensor<8x3xf32>) -> tensor<10xf32>
    %81 = "stablehlo.bitcast_convert"(%arg17) : (tensor<4x6xf32>) -> tensor<4x6xi32>
    %82 = stablehlo.reshape %arg18 : (tensor<6xi32>) -> tensor<1x6xi32>
    %83 = stablehlo.convert %arg0 : (tensor<i64>) -> tensor<i32>
    %84 = stablehlo.divide %83, %2 : tensor<i32>
    %85 = stablehlo.dynamic_update_slice %81, %82, %84, %4 : (tensor<4x6xi32>, tensor<1x6xi32>, tensor<i32>, tensor<i32>) -> tensor<4x6xi32>
    %86 = "stablehlo.bitcast_convert"(%85) : (tensor<4x6xi32>) -> tensor<4x6xf32>
    return %5, %8, %30, %32, %38, %51, %71, %78, %86 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<10xf32>, tensor<4x6xf32>
  }
}
