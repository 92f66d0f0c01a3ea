//go:build unix

package cli

// lockBeside is what the name of a lock adds to that of the file that is written. The file is its own
// lock, which leaves no other file behind.
const lockBeside = ""
