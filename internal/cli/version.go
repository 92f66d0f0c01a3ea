package cli

import (
	"fmt"
	"runtime/debug"
)

// release is the version, set when a release is built.
var release string

// versionCommand is `linkforge version`.
type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(io IO) error {
	_, err := fmt.Fprintln(io.Out, "linkforge", Version())
	return err
}

// Version is the release's, or the commit's that the binary was built from.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "development"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value[:min(12, len(setting.Value))]
		}
	}
	return "development"
}
