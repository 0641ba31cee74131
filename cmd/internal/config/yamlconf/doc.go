// Package yamlconf fills a struct from YAML, variables and texts, going by the tags
// of its fields, and tells everything that is wrong at once, each thing with its
// place. From the same tags come the JSON schema and the commented example.
//
// It knows nothing of what the keys mean.
package yamlconf
