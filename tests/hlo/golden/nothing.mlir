module @tt {
  func.func public @main(%arg0: tensor<3xf32>) -> () {
    return
  }
}
