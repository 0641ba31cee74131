package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hermesd/internal/secret"
)

// minKey is the minimum length of a key in characters.
const minKey = 20

// LoadKey returns the key in the file at path. If the file does not exist,
// LoadKey creates it with a new key, readable only by its owner, and created is
// true. A file that others can read is an error: its key may be known to them.
func LoadKey(path string) (key secret.Value, created bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		key, err = newKey(path)
		return key, err == nil, err
	case err != nil:
		return "", false, fmt.Errorf("API key: %w", err)
	case !info.Mode().IsRegular():
		return "", false, fmt.Errorf("API key: %s is not a file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", false, fmt.Errorf("API key: others can read %s (%v); remove it for a new key, or chmod 600 it", path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", false, fmt.Errorf("API key: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(text) < minKey || strings.ContainsFunc(text, odd) {
		return "", false, fmt.Errorf("API key: %s does not hold one line of at least %d printable characters; remove it for a new key", path, minKey)
	}
	return secret.Value(text), false, nil
}

// newKey writes a new key. The file is created completely or not at all.
func newKey(path string) (_ secret.Value, err error) {
	var b [32]byte
	rand.Read(b[:])
	text := "hk-" + base64.RawURLEncoding.EncodeToString(b[:])
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // 0600
	if err != nil {
		return "", fmt.Errorf("API key: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("API key: %w", err), os.Remove(f.Name()))
		}
	}()
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	return secret.Value(text), os.Rename(f.Name(), path)
}

// digest makes secrets of any length comparable in constant time.
func digest(s string) [32]byte { return sha256.Sum256([]byte(s)) }
