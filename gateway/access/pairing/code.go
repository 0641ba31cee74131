package pairing

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"unicode"
)

// alphabet has 32 symbols that cannot be confused with each other.
const alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"

// codeLength is the length of a code in characters.
const codeLength = 8

// newCode returns a new random code.
func newCode() string {
	b := make([]byte, codeLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)] // 256 is a multiple of 32
	}
	return string(b)
}

// normalizeCode converts a code that a user typed to upper case, without spaces and
// hyphens, and reports whether it has the form of a code.
func normalizeCode(code string) (string, bool) {
	code = strings.ToUpper(strings.Map(func(r rune) rune {
		if r == '-' || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, code))
	return code, len(code) == codeLength && strings.Trim(code, alphabet) == ""
}

// A hash is the salted hash of a code. An attacker who has it must try 2^39 codes on
// average, each at the cost of Rounds, within CodeLifetime.
type hash struct {
	Salt   []byte `json:"salt"`
	Rounds int    `json:"rounds"`
	Sum    []byte `json:"sum"`
}

// rounds of PBKDF2 with SHA-256 take some 20 ms.
const rounds = 100_000

func newHash(code string, rounds int) hash {
	h := hash{Salt: make([]byte, 16), Rounds: rounds}
	_, _ = rand.Read(h.Salt) // never fails
	h.Sum = h.sum(code)
	return h
}

func (h hash) sum(code string) []byte {
	sum, err := pbkdf2.Key(sha256.New, code, h.Salt, h.Rounds, sha256.Size)
	if err != nil {
		return nil // the stored hash is damaged and matches nothing
	}
	return sum
}

// matches reports whether h is the hash of code, in constant time. A hash with too many
// rounds matches nothing.
func (h hash) matches(code string) bool {
	return len(h.Sum) == sha256.Size && 0 < h.Rounds && h.Rounds <= 100*rounds && subtle.ConstantTimeCompare(h.Sum, h.sum(code)) == 1
}

// maxNameLength is the maximum length of a stored name in characters.
const maxNameLength = 64

// cleanName normalizes an untrusted name to one line of at most maxName characters, without
// control and format characters.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, name)
	name = strings.Join(strings.Fields(name), " ")
	if r := []rune(name); len(r) > maxNameLength {
		name = strings.TrimSpace(string(r[:maxNameLength]))
	}
	return name
}
