package byterover

import "hermesd/internal/secret"

// Decode decodes the output of a command into out.
func Decode(key string, output []byte, out any) error {
	return (&client{key: secret.Value(key)}).decode(output, out)
}
