// Package yamlconf decodes YAML, variables and strings into a struct according to
// the tags of its fields, and reports all problems at once with their positions. It
// also derives the JSON schema and the commented example from the tags. The main
// type is [Loader]; the tags are described at type field.
//
// The meaning of the keys is not known here.
package yamlconf
