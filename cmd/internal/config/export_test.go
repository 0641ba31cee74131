package config

// UpstreamKeys exports upstreamKeys.
func UpstreamKeys() []string { return upstreamKeys() }

// ParseDotenv parses a .env file into names and values.
func ParseDotenv(data []byte) (names, values []string, problems []Problem) {
	vars, problems := parseDotenv(".env", data)
	for _, v := range vars {
		names, values = append(names, v.name), append(values, v.value)
	}
	return names, values, problems
}
