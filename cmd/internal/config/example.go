package config

import "hermesd/cmd/internal/config/yamlconf"

const exampleHead = `# Configuration of hermesd: ~/.hermes/config.yaml.
#
# Every key is here with its default. A line that begins with # and no space is
# a key: take the # away to change it.
#
# A key may also come from the environment or from ~/.hermes/.env, which is the
# place for secrets; flags go before the environment, the environment before
# .env, and .env before this file. In texts ${NAME} and ${NAME:-default} stand
# for variables, $$ for a dollar sign. Times are written 30s, 5m or 1h30m, or as
# a number of seconds. A secret KEY may be given as KEY_file: the name of a file
# that holds it. Check this file with: hermesd config check
`

// Example returns the example configuration: every key with its default, range
// and one line of explanation. Used unchanged it has no effect.
func Example() []byte { return yamlconf.Example(new(Config), exampleHead) }

// Schema returns the JSON schema of config.yaml, for editors. It is stricter
// than Load: it does not contain the keys that only upstream Hermes has.
func Schema() ([]byte, error) { return yamlconf.Schema(new(Config), "hermesd config.yaml") }
