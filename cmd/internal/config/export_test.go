package config

import (
	"slices"
	"strings"
)

// UpstreamKeys returns the paths of the list.
func UpstreamKeys() (paths []string) {
	for _, ps := range upstreamPatterns() {
		for _, p := range ps {
			paths = append(paths, strings.Join(p.parts, "."))
		}
	}
	slices.Sort(paths)
	return paths
}

// ParseDotenv parses a .env file into names and values.
func ParseDotenv(data []byte) (names, values []string, problems []Problem) {
	vars, problems := parseDotenv(".env", data)
	for _, v := range vars {
		names, values = append(names, v.name), append(values, v.value)
	}
	return names, values, problems
}

// WatchDirs is watchDirs.
var WatchDirs = watchDirs
