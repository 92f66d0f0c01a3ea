package shortcode

import "crypto/rand"

// crockford are the digits of Crockford's base32 in lower case: without i, l, o and u.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// RandomFolded returns an unpredictable code that does not depend on case: eight characters of
// Crockford's base32, uniformly distributed.
func RandomFolded() string {
	var code [8]byte
	rand.Read(code[:]) // never fails: the program ends instead
	for i, b := range code {
		code[i] = crockford[b%32]
	}
	return string(code[:])
}

// Random returns an unpredictable code: seven characters of base62, uniformly distributed.
func Random() string {
	var code [CounterLength]byte
	for i := 0; i < len(code); {
		var raw [16]byte
		rand.Read(raw[:]) // never fails: the program ends instead
		for _, b := range raw {
			// 248 is the largest multiple of 62 in a byte: what lies above would favour the first
			// digits.
			if b < 248 && i < len(code) {
				code[i] = base62[b%62]
				i++
			}
		}
	}
	return string(code[:])
}
