module @tt {
  func.func public @main(%arg0: tensor<1x1x7x8xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x12x6xf32>, tensor<1x1x7x8xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xi32>) {
    %0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = "stablehlo.reduce_window"(%arg0, %0) ({
    ^bb0(%3: tensor<f32>, %4: tensor<f32>):
      %5 = stablehlo.maximum %3, %4 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }) {window_dimensions = array<i64: 1, 1, 2, 3>, window_strides = array<i64: 1, 1, 2, 2>, base_dilations = array<i64: 1, 1, 1, 1>, window_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>} : (tensor<1x1x7x8xf32>, tensor<f32>) -> tensor<1x1x4x4xf32>
    %6 = "stablehlo.reduce_window"(%arg0, %1) ({
    ^bb0(%7: tensor<f32>, %8: tensor<f32>):
      %9 = stablehlo.add %7, %8 : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) {window_dimensions = array<i64: 1, 1, 2, 3>, window_strides = array<i64: 1, 1, 2, 2>, base_dilations = array<i64: 1, 1, 1, 1>, window_dilations = array<i64: 1, 1, 2, 1>, padding = dense<[[0, 0], [0, 0], [1, 0], [1, 0]]> : tensor<4x2xi64>} : (tensor<1x1x7x8xf32>, tensor<f32>) -> tensor<1x1x3x4xf32>
    %10 = "stablehlo.reduce_window"(%arg0, %1) ({
    ^bb0(%11: tensor<f32>, %12: tensor<f32>):
      %13 = stablehlo.add %11, %12 : tensor<f32>
      stablehlo.return %13 : tensor<f32>
    }) {window_dimensions = array<i64: 1, 1, 2, 3>, window_strides = array<i64: 1, 1, 1, 1>, base_dilations = array<i64: 1, 1, 2, 1>, window_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [0, 0], [0, 0]]> : tensor<4x2xi64>} : (tensor<1x1x7x8xf32>, tensor<f32>) -> tensor<1x1x12x6xf32>
    %14 = "stablehlo.select_and_scatter"(%arg0, %2, %1) ({
    ^bb0(%15: tensor<f32>, %16: tensor<f32>):
      %17 = stablehlo.compare GE, %15, %16 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %17 : tensor<i1>
    }, {
    ^bb0(%18: tensor<f32>, %19: tensor<f32>):
      %20 = stablehlo.add %18, %19 : tensor<f32>
      stablehlo.return %20 : tensor<f32>
    }) {window_dimensions = array<i64: 1, 1, 2, 3>, window_strides = array<i64: 1, 1, 2, 2>, padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>} : (tensor<1x1x7x8xf32>, tensor<1x1x4x4xf32>, tensor<f32>) -> tensor<1x1x7x8xf32>
    %21 = stablehlo.iota dim = 3 : tensor<1x1x7x8xi32>
    %22 = stablehlo.constant dense<0> : tensor<i32>
    %23, %24 = "stablehlo.reduce_window"(%arg0, %21, %0, %22) ({
    ^bb0(%25: tensor<f32>, %26: tensor<i32>, %27: tensor<f32>, %28: tensor<i32>):
      %29 = stablehlo.compare GT, %27, %25 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %30 = stablehlo.select %29, %27, %25 : tensor<i1>, tensor<f32>
      %31 = stablehlo.select %29, %28, %26 : tensor<i1>, tensor<i32>
      stablehlo.return %30, %31 : tensor<f32>, tensor<i32>
    }) {window_dimensions = array<i64: 1, 1, 2, 3>, window_strides = array<i64: 1, 1, 2, 2>, base_dilations = array<i64: 1, 1, 1, 1>, window_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>} : (tensor<1x1x7x8xf32>, tensor<1x1x7x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xi32>)
    return %2, %6, %10, %14, %23, %24 : tensor<1x1x4x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x12x6xf32>, tensor<1x1x7x8xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xi32>
  }
}
