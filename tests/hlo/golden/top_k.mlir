module @tt {
  func.func public @main(%arg0: tensor<3x7xf32>, %arg1: tensor<5xi64>) -> (tensor<3x2xf32>, tensor<3x2xi32>, tensor<5xi64>, tensor<5xi32>) {
    %0, %1 = "chlo.top_k"(%arg0) {k = 2 : i64} : (tensor<3x7xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
    %2, %3 = "chlo.top_k"(%arg1) {k = 5 : i64} : (tensor<5xi64>) -> (tensor<5xi64>, tensor<5xi32>)
    return %0, %1, %2, %3 : tensor<3x2xf32>, tensor<3x2xi32>, tensor<5xi64>, tensor<5xi32>
  }
}
