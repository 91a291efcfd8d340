module @tt {
  func.func public @main(%arg0: tensor<2xui64>) -> (tensor<3xui8>, tensor<2x3xui32>, tensor<ui64>, tensor<0x3xui16>, tensor<2xui64>) {
    %0, %1 = "stablehlo.rng_bit_generator"(%arg0) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)
    %2 = stablehlo.convert %1 : (tensor<3xui32>) -> tensor<3xui8>
    %3, %4 = "stablehlo.rng_bit_generator"(%0) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3xui32>)
    %5, %6 = "stablehlo.rng_bit_generator"(%3) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<ui64>)
    %7, %8 = "stablehlo.rng_bit_generator"(%5) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<0x3xui32>)
    %9 = stablehlo.convert %8 : (tensor<0x3xui32>) -> tensor<0x3xui16>
    return %2, %4, %6, %9, %5 : tensor<3xui8>, tensor<2x3xui32>, tensor<ui64>, tensor<0x3xui16>, tensor<2xui64>
  }
}
