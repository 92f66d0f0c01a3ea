package rig

import (
	"runtime"
	"runtime/debug"
)

// GeneratorCores is how many cores a load generator may use.
func GeneratorCores() int { return max(1, runtime.NumCPU()/3) }

// BecomeGenerator makes this process a load generator, which leaves the machine to what it measures: little is allocated that
// would have to be collected, and the more threads look for work, the more they take from the server.
func BecomeGenerator() {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(GeneratorCores())
}
