package rig

import "math/bits"

// Skew is the exponent of Zipf's law, which visits of pages follow: of a million links the first
// has every eighth visit.
const Skew = 1.1

const (
	alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	// codes is how many there are, 58^10. Multiples of codeStride, which is coprime to it, reach each
	// of them once.
	codes      = 430_804_206_899_405_824
	codeStride = 266_251_642_360_274_785
)

// Code is the code of a link by its number: ten letters of Base58, as generated codes have.
func Code(number int) string {
	high, low := bits.Mul64(uint64(number)+1, codeStride)
	_, n := bits.Div64(high, low, codes)
	var c [10]byte
	for i := range c {
		c[i] = alphabet[n%58]
		n /= 58
	}
	return string(c[:])
}
