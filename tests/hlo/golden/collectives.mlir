module @tt {
  func.func public @main(%arg0: tensor<6x4xf32>, %arg1: tensor<3xi1>) -> (tensor<6x4xf32>, tensor<3xi1>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<3xi1>) {
    %0 = "stablehlo.all_reduce"(%arg0) ({
    ^bb0(%1: tensor<f32>, %2: tensor<f32>):
      %3 = stablehlo.add %1, %2 : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %4 = "stablehlo.all_reduce"(%arg1) ({
    ^bb0(%5: tensor<i1>, %6: tensor<i1>):
      %7 = stablehlo.and %5, %6 : tensor<i1>
      stablehlo.return %7 : tensor<i1>
    }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<3xi1>) -> tensor<3xi1>
    %8 = "stablehlo.reduce_scatter"(%arg0) ({
    ^bb0(%9: tensor<f32>, %10: tensor<f32>):
      %11 = stablehlo.maximum %9, %10 : tensor<f32>
      stablehlo.return %11 : tensor<f32>
    }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>, scatter_dimension = 1 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %12 = "stablehlo.all_gather"(%arg0) {all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %13 = "stablehlo.all_to_all"(%arg0) {split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 1 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %14 = "stablehlo.collective_permute"(%arg0) {source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    %15, %16 = "stablehlo.optimization_barrier"(%arg0, %arg1) : (tensor<6x4xf32>, tensor<3xi1>) -> (tensor<6x4xf32>, tensor<3xi1>)
    return %0, %4, %8, %12, %13, %14, %15, %16 : tensor<6x4xf32>, tensor<3xi1>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<3xi1>
  }
}
