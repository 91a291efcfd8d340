module @tt {
  func.func public @main(%arg0: tensor<2x3xi64>, %arg1: tensor<2x3xi64>, %arg2: tensor<ui64>, %arg3: tensor<1x4x6xi64>, %arg4: tensor<2x2x3xi64>, %arg5: tensor<1x1x11x12x13xf32>, %arg6: tensor<1x1x4x4x4xf32>, %arg7: tensor<2x6xf64>) -> (tensor<2x3xi64>, tensor<2x3xi64>, tensor<2x3xui64>, tensor<2x3xi32>, tensor<2x2xi64>, tensor<1x2x3xi64>, tensor<1x1x10x11x12xf32>, tensor<2x4xcomplex<f64>>) {
    %0 = stablehlo.constant dense<0> : tensor<i64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i64>) -> tensor<2x3xi64>
    %2 = stablehlo.compare EQ, %arg1, %1 : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi1>
    %3 = stablehlo.abs %arg1 : tensor<2x3xi64>
    %4 = "stablehlo.bitcast_convert"(%3) : (tensor<2x3xi64>) -> tensor<2x3xui64>
    %5 = stablehlo.constant dense<1> : tensor<ui64>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<ui64>) -> tensor<2x3xui64>
    %7 = stablehlo.select %2, %6, %4 : tensor<2x3xi1>, tensor<2x3xui64>
    %8 = stablehlo.convert %7 : (tensor<2x3xui64>) -> tensor<2x3xf32>
    %9 = stablehlo.constant dense<0> : tensor<2x3xui64>
    %10 = stablehlo.abs %arg0 : tensor<2x3xi64>
    %11 = "stablehlo.bitcast_convert"(%10) : (tensor<2x3xi64>) -> tensor<2x3xui64>
    %12, %13 = "stablehlo.while"(%9, %11) ({
    ^bb0(%14: tensor<2x3xui64>, %15: tensor<2x3xui64>):
      %16 = stablehlo.compare GE, %15, %7 : (tensor<2x3xui64>, tensor<2x3xui64>) -> tensor<2x3xi1>
      %17 = stablehlo.constant dense<false> : tensor<i1>
      %18 = stablehlo.reduce(%16 init: %17) applies stablehlo.or across dimensions = [0, 1] : (tensor<2x3xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %18 : tensor<i1>
    }, {
    ^bb0(%19: tensor<2x3xui64>, %20: tensor<2x3xui64>):
      %21 = stablehlo.convert %20 : (tensor<2x3xui64>) -> tensor<2x3xf32>
      %22 = stablehlo.divide %21, %8 : tensor<2x3xf32>
      %23 = stablehlo.constant dense<0x3F7FFF00> : tensor<f32>
      %24 = stablehlo.broadcast_in_dim %23, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
      %25 = stablehlo.multiply %22, %24 : tensor<2x3xf32>
      %26 = stablehlo.convert %25 : (tensor<2x3xf32>) -> tensor<2x3xui64>
      %27 = stablehlo.constant dense<1> : tensor<ui64>
      %28 = stablehlo.broadcast_in_dim %27, dims = [] : (tensor<ui64>) -> tensor<2x3xui64>
      %29 = stablehlo.maximum %26, %28 : tensor<2x3xui64>
      %30 = stablehlo.constant dense<0> : tensor<ui64>
      %31 = stablehlo.compare GE, %20, %7 : (tensor<2x3xui64>, tensor<2x3xui64>) -> tensor<2x3xi1>
      %32 = stablehlo.broadcast_in_dim %30, dims = [] : (tensor<ui64>) -> tensor<2x3xui64>
      %33 = stablehlo.select %31, %29, %32 : tensor<2x3xi1>, tensor<2x3xui64>
      %34 = stablehlo.add %19, %33 : tensor<2x3xui64>
      %35 = stablehlo.multiply %33, %7 : tensor<2x3xui64>
      %36 = stablehlo.subtract %20, %35 : tensor<2x3xui64>
      stablehlo.return %34, %36 : tensor<2x3xui64>, tensor<2x3xui64>
    }) : (tensor<2x3xui64>, tensor<2x3xui64>) -> (tensor<2x3xui64>, tensor<2x3xui64>)
    %37 = "stablehlo.bitcast_convert"(%12) : (tensor<2x3xui64>) -> tensor<2x3xi64>
    %38 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i64>) -> tensor<2x3xi64>
    %39 = stablehlo.compare LT, %arg1, %38 : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi1>
    %40 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i64>) -> tensor<2x3xi64>
    %41 = stablehlo.compare LT, %arg0, %40 : (tensor<2x3xi64>, tensor<2x3xi64>) -> tensor<2x3xi1>
    %42 = stablehlo.compare NE, %41, %39 : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
    %43 = stablehlo.negate %37 : tensor<2x3xi64>
    %44 = stablehlo.select %42, %43, %37 : tensor<2x3xi1>, tensor<2x3xi64>
    %45 = stablehlo.not %0 : tensor<i64>
    %46 = stablehlo.broadcast_in_dim %45, dims = [] : (tensor<i64>) -> tensor<2x3xi64>
    %47 = stablehlo.select %2, %46, %44 : tensor<2x3xi1>, tensor<2x3xi64>
    %48 = stablehlo.multiply %47, %arg1 : tensor<2x3xi64>
    %49 = stablehlo.subtract %arg0, %48 : tensor<2x3xi64>
    %50 = stablehlo.convert %arg0 : (tensor<2x3xi64>) -> tensor<2x3xui64>
    %51 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<ui64>) -> tensor<2x3xui64>
    %52 = stablehlo.constant dense<0> : tensor<ui64>
    %53 = stablehlo.broadcast_in_dim %52, dims = [] : (tensor<ui64>) -> tensor<2x3xui64>
    %54 = stablehlo.compare EQ, %51, %53 : (tensor<2x3xui64>, tensor<2x3xui64>) -> tensor<2x3xi1>
    %55 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<ui64>) -> tensor<2x3xui64>
    %56 = stablehlo.select %54, %55, %51 : tensor<2x3xi1>, tensor<2x3xui64>
    %57 = stablehlo.convert %56 : (tensor<2x3xui64>) -> tensor<2x3xf32>
    %58, %59 = "stablehlo.while"(%9, %50) ({
    ^bb0(%60: tensor<2x3xui64>, %61: tensor<2x3xui64>):
      %62 = stablehlo.compare GE, %61, %56 : (tensor<2x3xui64>, tensor<2x3xui64>) -> tensor<2x3xi1>
      %63 = stablehlo.constant dense<false> : tensor<i1>
      %64 = stablehlo.reduce(%62 init: %63) applies stablehlo.or across dimensions = [0, 1] : (tensor<2x3xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %64 : tensor<i1>
    }, {
    ^bb0(%65: tensor<2x3xui64>, %66: tensor<2x3xui64>):
      %67 = stablehlo.convert %66 : (tensor<2x3xui64>) -> tensor<2x3xf32>
      %68 = stablehlo.divide %67, %57 : tensor<2x3xf32>
      %69 = stablehlo.constant dense<0x3F7FFF00> : tensor<f32>
      %70 = stablehlo.broadcast_in_dim %69, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
      %71 = stablehlo.multiply %68, %70 : tensor<2x3xf32>
      %72 = stablehlo.convert %71 : (tensor<2x3xf32>) -> tensor<2x3xui64>
      %73 = stablehlo.constant dense<1> : tensor<ui64>
      %74 = stablehlo.broadcast_in_dim %73, dims = [] : (tensor<ui64>) -> tensor<2x3xui64>
      %75 = stablehlo.maximum %72, %74 : tensor<2x3xui64>
      %76 = stablehlo.constant dense<0> : tensor<ui64>
      %77 = stablehlo.compare GE, %66, %56 : (tensor<2x3xui64>, tensor<2x3xui64>) -> tensor<2x3xi1>
      %78 = stablehlo.broadcast_in_dim %76, dims = [] : (tensor<ui64>) -> tensor<2x3xui64>
      %79 = stablehlo.select %77, %75, %78 : tensor<2x3xi1>, tensor<2x3xui64>
      %80 = stablehlo.add %65, %79 : tensor<2x3xui64>
      %81 = stablehlo.multiply %79, %56 : tensor<2x3xui64>
      %82 = stablehlo.subtract %66, %81 : tensor<2x3xui64>
      stablehlo.return %80, %82 : tensor<2x3xui64>, tensor<2x3xui64>
    }) : (tensor<2x3xui64>, tensor<2x3xui64>) -> (tensor<2x3xui64>, tensor<2x3xui64>)
    %83 = stablehlo.not %52 : tensor<ui64>
    %84 = stablehlo.broadcast_in_dim %83, dims = [] : (tensor<ui64>) -> tensor<2x3xui64>
    %85 = stablehlo.select %54, %84, %58 : tensor<2x3xi1>, tensor<2x3xui64>
    %86 = stablehlo.convert %arg1 : (tensor<2x3xi64>) -> tensor<2x3xi32>
    %87 = stablehlo.convert %arg0 : (tensor<2x3xi64>) -> tensor<2x3xi32>
    %88 = stablehlo.divide %87, %86 : tensor<2x3xi32>
    %89 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<2x3xi64>) -> tensor<2x2x3xi64>
    %90 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<2x3xi64>) -> tensor<2x2x3xi64>
    %91 = stablehlo.multiply %89, %90 : tensor<2x2x3xi64>
    %92 = stablehlo.reduce(%91 init: %0) applies stablehlo.add across dimensions = [2] : (tensor<2x2x3xi64>, tensor<i64>) -> tensor<2x2xi64>
    %93 = stablehlo.pad %arg3, %0, low = [0, 0, 1], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<1x4x6xi64>, tensor<i64>) -> tensor<1x4x8xi64>
    %94 = stablehlo.reshape %93 : (tensor<1x4x8xi64>) -> tensor<1x2x2x8xi64>
    %95 = stablehlo.reshape %arg4 : (tensor<2x2x3xi64>) -> tensor<2x1x2x3xi64>
    %96 = stablehlo.constant dense<0> : tensor<i32>
    %97 = stablehlo.constant dense<0> : tensor<2x1x3x1xi64>
    %98, %99 = "stablehlo.while"(%96, %97) ({
    ^bb0(%100: tensor<i32>, %101: tensor<2x1x3x1xi64>):
      %102 = stablehlo.constant dense<3> : tensor<i32>
      %103 = stablehlo.compare LT, %100, %102 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %103 : tensor<i1>
    }, {
    ^bb0(%104: tensor<i32>, %105: tensor<2x1x3x1xi64>):
      %106 = stablehlo.constant dense<0> : tensor<i32>
      %107 = stablehlo.constant dense<3> : tensor<i32>
      %108 = stablehlo.constant dense<1> : tensor<i32>
      %109 = stablehlo.remainder %104, %107 : tensor<i32>
      %110 = stablehlo.multiply %109, %108 : tensor<i32>
      %111 = stablehlo.divide %104, %107 : tensor<i32>
      %112 = stablehlo.dynamic_slice %94, %106, %106, %106, %110, sizes = [1, 2, 2, 5] : (tensor<1x2x2x8xi64>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x2x5xi64>
      %113 = stablehlo.slice %112 [0:1, 0:2, 0:2, 0:5:2] : (tensor<1x2x2x5xi64>) -> tensor<1x2x2x3xi64>
      %114 = stablehlo.dynamic_slice %95, %106, %106, %106, %104, sizes = [2, 1, 2, 1] : (tensor<2x1x2x3xi64>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x2x1xi64>
      %115 = stablehlo.reshape %114 : (tensor<2x1x2x1xi64>) -> tensor<2x1x2xi64>
      %116 = stablehlo.add %104, %108 : tensor<i32>
      %117 = stablehlo.transpose %113, dims = [1, 0, 3, 2] : (tensor<1x2x2x3xi64>) -> tensor<2x1x3x2xi64>
      %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2, 4] : (tensor<2x1x3x2xi64>) -> tensor<2x1x3x1x2xi64>
      %119 = stablehlo.broadcast_in_dim %115, dims = [0, 3, 4] : (tensor<2x1x2xi64>) -> tensor<2x1x3x1x2xi64>
      %120 = stablehlo.constant dense<0> : tensor<i64>
      %121 = stablehlo.multiply %118, %119 : tensor<2x1x3x1x2xi64>
      %122 = stablehlo.reduce(%121 init: %120) applies stablehlo.add across dimensions = [4] : (tensor<2x1x3x1x2xi64>, tensor<i64>) -> tensor<2x1x3x1xi64>
      %123 = stablehlo.add %105, %122 : tensor<2x1x3x1xi64>
      stablehlo.return %116, %123 : tensor<i32>, tensor<2x1x3x1xi64>
    }) : (tensor<i32>, tensor<2x1x3x1xi64>) -> (tensor<i32>, tensor<2x1x3x1xi64>)
    %124 = stablehlo.transpose %99, dims = [1, 0, 3, 2] : (tensor<2x1x3x1xi64>) -> tensor<1x2x1x3xi64>
    %125 = stablehlo.reshape %124 : (tensor<1x2x1x3xi64>) -> tensor<1x2x3xi64>
    %126 = stablehlo.constant dense<0.0> : tensor<f32>
    %127 = stablehlo.pad %arg5, %126, low = [0, 0, 4, 4, 4], high = [0, 0, 4, 4, 4], interior = [0, 0, 0, 0, 0] : (tensor<1x1x11x12x13xf32>, tensor<f32>) -> tensor<1x1x19x20x21xf32>
    %128 = stablehlo.reshape %127 : (tensor<1x1x19x20x21xf32>) -> tensor<1x1x1x19x20x21xf32>
    %129 = stablehlo.reshape %arg6 : (tensor<1x1x4x4x4xf32>) -> tensor<1x1x1x64xf32>
    %130 = stablehlo.constant dense<0.0> : tensor<1x1x10x11x12x1xf32>
    %131, %132 = "stablehlo.while"(%96, %130) ({
    ^bb0(%133: tensor<i32>, %134: tensor<1x1x10x11x12x1xf32>):
      %135 = stablehlo.constant dense<64> : tensor<i32>
      %136 = stablehlo.compare LT, %133, %135 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %136 : tensor<i1>
    }, {
    ^bb0(%137: tensor<i32>, %138: tensor<1x1x10x11x12x1xf32>):
      %139 = stablehlo.constant dense<0> : tensor<i32>
      %140 = stablehlo.constant dense<4> : tensor<i32>
      %141 = stablehlo.constant dense<3> : tensor<i32>
      %142 = stablehlo.remainder %137, %140 : tensor<i32>
      %143 = stablehlo.multiply %142, %141 : tensor<i32>
      %144 = stablehlo.divide %137, %140 : tensor<i32>
      %145 = stablehlo.remainder %144, %140 : tensor<i32>
      %146 = stablehlo.multiply %145, %141 : tensor<i32>
      %147 = stablehlo.divide %144, %140 : tensor<i32>
      %148 = stablehlo.remainder %147, %140 : tensor<i32>
      %149 = stablehlo.multiply %148, %141 : tensor<i32>
      %150 = stablehlo.divide %147, %140 : tensor<i32>
      %151 = stablehlo.dynamic_slice %128, %139, %139, %139, %149, %146, %143, sizes = [1, 1, 1, 10, 11, 12] : (tensor<1x1x1x19x20x21xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x1x10x11x12xf32>
      %152 = stablehlo.dynamic_slice %129, %139, %139, %139, %137, sizes = [1, 1, 1, 1] : (tensor<1x1x1x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x1x1xf32>
      %153 = stablehlo.reshape %152 : (tensor<1x1x1x1xf32>) -> tensor<1x1x1xf32>
      %154 = stablehlo.constant dense<1> : tensor<i32>
      %155 = stablehlo.add %137, %154 : tensor<i32>
      %156 = stablehlo.dot_general %151, %153, batching_dims = [1] x [0], contracting_dims = [2] x [2], precision = [HIGHEST, HIGHEST] : (tensor<1x1x1x10x11x12xf32>, tensor<1x1x1xf32>) -> tensor<1x1x10x11x12x1xf32>
      %157 = stablehlo.add %138, %156 : tensor<1x1x10x11x12x1xf32>
      stablehlo.return %155, %157 : tensor<i32>, tensor<1x1x10x11x12x1xf32>
    }) : (tensor<i32>, tensor<1x1x10x11x12x1xf32>) -> (tensor<i32>, tensor<1x1x10x11x12x1xf32>)
    %158 = stablehlo.transpose %132, dims = [1, 0, 5, 2, 3, 4] : (tensor<1x1x10x11x12x1xf32>) -> tensor<1x1x1x10x11x12xf32>
    %159 = stablehlo.reshape %158 : (tensor<1x1x1x10x11x12xf32>) -> tensor<1x1x10x11x12xf32>
    %160 = stablehlo.constant dense<0.0> : tensor<2x6xf64>
    %161 = "stablehlo.complex"(%arg7, %160) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xcomplex<f64>>
    %162 = "stablehlo.real"(%161) : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xf64>
    %163 = "stablehlo.imag"(%161) : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xf64>
    %164 = stablehlo.reshape %162 : (tensor<2x6xf64>) -> tensor<2x6x1xf64>
    %165 = stablehlo.reshape %163 : (tensor<2x6xf64>) -> tensor<2x6x1xf64>
    %166 = stablehlo.constant dense<6> : tensor<i32>
    %167 = stablehlo.iota dim = 1 : tensor<6x6xi32>
    %168 = stablehlo.iota dim = 0 : tensor<6x6xi32>
    %169 = stablehlo.multiply %168, %167 : tensor<6x6xi32>
    %170 = stablehlo.broadcast_in_dim %166, dims = [] : (tensor<i32>) -> tensor<6x6xi32>
    %171 = stablehlo.remainder %169, %170 : tensor<6x6xi32>
    %172 = stablehlo.convert %171 : (tensor<6x6xi32>) -> tensor<6x6xf64>
    %173 = stablehlo.constant dense<0xBFF0C152382D7365> : tensor<f64>
    %174 = stablehlo.broadcast_in_dim %173, dims = [] : (tensor<f64>) -> tensor<6x6xf64>
    %175 = stablehlo.multiply %172, %174 : tensor<6x6xf64>
    %176 = stablehlo.cosine %175 : tensor<6x6xf64>
    %177 = stablehlo.sine %175 : tensor<6x6xf64>
    %178 = stablehlo.concatenate %164, %165, dim = 0 : (tensor<2x6x1xf64>, tensor<2x6x1xf64>) -> tensor<4x6x1xf64>
    %179 = stablehlo.dot_general %178, %176, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x6x1xf64>, tensor<6x6xf64>) -> tensor<4x1x6xf64>
    %180 = stablehlo.dot_general %178, %177, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x6x1xf64>, tensor<6x6xf64>) -> tensor<4x1x6xf64>
    %181 = stablehlo.slice %179 [0:2, 0:1, 0:6] : (tensor<4x1x6xf64>) -> tensor<2x1x6xf64>
    %182 = stablehlo.slice %179 [2:4, 0:1, 0:6] : (tensor<4x1x6xf64>) -> tensor<2x1x6xf64>
    %183 = stablehlo.slice %180 [0:2, 0:1, 0:6] : (tensor<4x1x6xf64>) -> tensor<2x1x6xf64>
    %184 = stablehlo.slice %180 [2:4, 0:1, 0:6] : (tensor<4x1x6xf64>) -> tensor<2x1x6xf64>
    %185 = stablehlo.subtract %181, %184 : tensor<2x1x6xf64>
    %186 = stablehlo.add %183, %182 : tensor<2x1x6xf64>
    %187 = stablehlo.reshape %185 : (tensor<2x1x6xf64>) -> tensor<2x6xf64>
    %188 = stablehlo.reshape %186 : (tensor<2x1x6xf64>) -> tensor<2x6xf64>
    %189 = "stablehlo.complex"(%187, %188) : (tensor<2x6xf64>, tensor<2x6xf64>) -> tensor<2x6xcomplex<f64>>
    %190 = stablehlo.slice %189 [0:2, 0:4] : (tensor<2x6xcomplex<f64>>) -> tensor<2x4xcomplex<f64>>
    return %47, %49, %85, %88, %92, %125, %159, %190 : tensor<2x3xi64>, tensor<2x3xi64>, tensor<2x3xui64>, tensor<2x3xi32>, tensor<2x2xi64>, tensor<1x2x3xi64>, tensor<1x1x10x11x12xf32>, tensor<2x4xcomplex<f64>>
  }
}
