package shortcode

import "crypto/rand"

// Random returns an unpredictable code: seven characters of base62, uniformly distributed.
func Random() string {
	var code [CounterLength]byte
	for i := 0; i < len(code); {
		var raw [16]byte
		rand.Read(raw[:]) // never fails: the program ends instead
		for _, b := range raw {
			// 248 is the largest multiple of 62 in a byte: what lies above would favour the first digits.
			if b < 248 && i < len(code) {
				code[i] = base62[b%62]
				i++
			}
		}
	}
	return string(code[:])
}
