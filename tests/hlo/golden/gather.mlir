module @tt {
  func.func public @main(%arg0: tensor<5x4xf32>, %arg1: tensor<2x3xi64>, %arg2: tensor<7x2xi32>) -> (tensor<2x3x4xf32>, tensor<7xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>) {
    %0 = "stablehlo.gather"(%arg0, %arg1) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>} : (tensor<5x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
    %1 = "stablehlo.gather"(%arg0, %arg2) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>} : (tensor<5x4xf32>, tensor<7x2xi32>) -> tensor<7xf32>
    %2 = "stablehlo.scatter"(%arg0, %arg2, %1) ({
    ^bb0(%3: tensor<f32>, %4: tensor<f32>):
      %5 = stablehlo.add %3, %4 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<5x4xf32>, tensor<7x2xi32>, tensor<7xf32>) -> tensor<5x4xf32>
    %6 = "stablehlo.scatter"(%arg0, %arg2, %1) ({
    ^bb0(%7: tensor<f32>, %8: tensor<f32>):
      stablehlo.return %8 : tensor<f32>
    }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<5x4xf32>, tensor<7x2xi32>, tensor<7xf32>) -> tensor<5x4xf32>
    %9 = "stablehlo.scatter"(%arg0, %arg2, %1) ({
    ^bb0(%10: tensor<f32>, %11: tensor<f32>):
      %12 = stablehlo.maximum %10, %11 : tensor<f32>
      stablehlo.return %12 : tensor<f32>
    }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false} : (tensor<5x4xf32>, tensor<7x2xi32>, tensor<7xf32>) -> tensor<5x4xf32>
    %13 = stablehlo.constant dense<1.0> : tensor<2x3x4xf32>
    %14 = "stablehlo.scatter"(%arg0, %arg1, %13) ({
    ^bb0(%15: tensor<f32>, %16: tensor<f32>):
      %17 = stablehlo.add %15, %16 : tensor<f32>
      stablehlo.return %17 : tensor<f32>
    }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, indices_are_sorted = true, unique_indices = true} : (tensor<5x4xf32>, tensor<2x3xi64>, tensor<2x3x4xf32>) -> tensor<5x4xf32>
    return %0, %1, %2, %6, %9, %14 : tensor<2x3x4xf32>, tensor<7xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>
  }
}
