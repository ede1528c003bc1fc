cp "$PAGES/product.onnx" model.onnx
