package config

import "reflect"

// Paths returns the paths of all keys and sections.
func Paths() []string {
	var all func(fs []*field) []string
	all = func(fs []*field) (ps []string) {
		for _, f := range fs {
			ps = append(append(ps, f.path), all(f.sub)...)
		}
		return ps
	}
	return all(describe(reflect.TypeFor[Config](), "", nil))
}

// UpstreamKeys returns the table of keys that only upstream has.
func UpstreamKeys() []string { return upstreamKeys() }

// ParseDotenv reads a .env file into names and values.
func ParseDotenv(data []byte) (names, values []string, problems []Problem) {
	vars, problems := parseDotenv(".env", data)
	for _, v := range vars {
		names, values = append(names, v.name), append(values, v.value)
	}
	return names, values, problems
}

// Distance and Expand are what they are inside.
var (
	Distance = distance
	Expand   = expand
)

// Undocumented returns the keys without an explanation of one line.
func Undocumented() (paths []string) {
	var all func(fs []*field)
	all = func(fs []*field) {
		for _, f := range fs {
			if f.kind != section && (f.doc == "" || len(f.doc) > 200 || f.doc[len(f.doc)-1] != '.') {
				paths = append(paths, f.path)
			}
			all(f.sub)
		}
	}
	all(describe(reflect.TypeFor[Config](), "", nil))
	return paths
}
