package config

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

const (
	prefix = "LINKFORGE_"
	// testPrefix is that of variables that tests read.
	testPrefix = "LINKFORGE_TEST_"
	// maxPrefixEdits is the number of edits that make a name with a misspelt prefix.
	maxPrefixEdits = 2
)

// clientSettings are the variables of commands that are clients of the API.
var clientSettings = []string{"LINKFORGE", "LINKFORGE_API_KEY", "LINKFORGE_WORKSPACE", "LINKFORGE_SOURCE_TOKEN"}

// serviceLink matches the variables that Kubernetes and Docker set for services named linkforge or
// linkforge-….
var serviceLink = regexp.MustCompile(`^LINKFORGE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)\w*)?)$`)

// settingNames lists the environment variables of all settings.
func settingNames() (names []string) {
	eachSetting(reflect.ValueOf(Config{}), func(_ reflect.Value, tag reflect.StructTag) {
		names = append(names, tag.Get("env"))
	})
	return names
}

// nearest returns the setting whose name needs the fewest edits to become the given one; of
// several, one with a long common beginning.
func nearest(name string) (setting string, edits int) {
	upper, common := strings.ToUpper(name), 0
	for _, candidate := range settingNames() {
		n, same := levenshtein.ComputeDistance(upper, candidate), 0
		for same < min(len(upper), len(candidate)) && upper[same] == candidate[same] {
			same++
		}
		if setting == "" || n < edits || n == edits && same > common {
			setting, edits, common = candidate, n, same
		}
	}
	return setting, edits
}

// isMisspelt reports whether a variable looks like a setting and is none.
func isMisspelt(name string) bool {
	upper := strings.ToUpper(name)
	if strings.HasPrefix(name, testPrefix) || slices.Contains(settingNames(), name) ||
		slices.Contains(clientSettings, name) {
		return false
	}
	if strings.HasPrefix(upper, prefix) {
		return true
	}
	if levenshtein.ComputeDistance(upper[:min(len(upper), len(prefix))], prefix) > maxPrefixEdits {
		return false
	}
	_, edits := nearest(name)
	return edits <= maxPrefixEdits
}

// refuseUnknown reports the variables that are no settings, each with the nearest name.
func (r *reader) refuseUnknown() {
	for _, name := range slices.Sorted(maps.Keys(r.texts)) {
		if !isMisspelt(name) {
			continue
		}
		if serviceLink.MatchString(name) {
			r.report(name, "is not a setting: Kubernetes sets it for a Service whose name begins with linkforge. Set "+
				"enableServiceLinks: false "+
				"for the pod, or remove the variable")
			continue
		}
		setting, _ := nearest(name)
		r.report(name, "is not a setting; the nearest is %s. Correct the name, or remove the variable", setting)
	}
}
