module @tt {
  func.func public @main(%arg0: tensor<3x8xf32>, %arg1: tensor<3x8xcomplex<f32>>) -> (tensor<3x8xcomplex<f32>>, tensor<3x8xcomplex<f32>>, tensor<3x5xcomplex<f32>>, tensor<3x8xf32>) {
    %0 = "stablehlo.fft"(%arg1) {fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 8>} : (tensor<3x8xcomplex<f32>>) -> tensor<3x8xcomplex<f32>>
    %1 = "stablehlo.fft"(%arg1) {fft_type = #stablehlo<fft_type IFFT>, fft_length = array<i64: 3, 8>} : (tensor<3x8xcomplex<f32>>) -> tensor<3x8xcomplex<f32>>
    %2 = "stablehlo.fft"(%arg0) {fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 8>} : (tensor<3x8xf32>) -> tensor<3x5xcomplex<f32>>
    %3 = "stablehlo.fft"(%2) {fft_type = #stablehlo<fft_type IRFFT>, fft_length = array<i64: 8>} : (tensor<3x5xcomplex<f32>>) -> tensor<3x8xf32>
    return %0, %1, %2, %3 : tensor<3x8xcomplex<f32>>, tensor<3x8xcomplex<f32>>, tensor<3x5xcomplex<f32>>, tensor<3x8xf32>
  }
}
