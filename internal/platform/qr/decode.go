package qr

import (
	"image"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
)

// decode reads the code in an image, which it looks for as in a photo. The reader does not find one
// code in some hundreds, because it takes other modules for a corner; such a code is read as an
// image that has nothing else.
func decode(img image.Image) (string, error) {
	text, err := decodeWith(img, nil)
	if err != nil {
		return decodeWith(img, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	}
	return text, nil
}

func decodeWith(img image.Image, hints map[gozxing.DecodeHintType]any) (string, error) {
	bitmap, err := gozxing.NewBinaryBitmapFromImage(img)
	if err != nil {
		return "", err
	}
	result, err := qrcode.NewQRCodeReader().Decode(bitmap, hints)
	if err != nil {
		return "", err
	}
	return result.GetText(), nil
}
