//go:build !cheap_passwords

package account

// cost is bcrypt's work factor.
const cost = 12
