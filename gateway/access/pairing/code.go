package pairing

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"unicode"
)

// alphabet has 32 symbols, none of which is taken for another.
const alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"

// size is the length of a code.
const size = 8

// random returns a new code.
func random() string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // it never fails
	for i := range b {
		b[i] = alphabet[int(b[i])%len(alphabet)] // 256 is a multiple of 32
	}
	return string(b)
}

// normalizeCode returns a code as it was meant, and whether it can be one at all: people
// write small letters, and spaces and hyphens in between.
func normalizeCode(code string) (string, bool) {
	code = strings.ToUpper(strings.Map(func(r rune) rune {
		if r == '-' || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, code))
	return code, len(code) == size && strings.Trim(code, alphabet) == ""
}

// A hash stands for a code. Whoever has it and wants the code has to try 2^39
// codes on average, at the price of rounds each, in the hour that it holds.
type hash struct {
	Salt   []byte `json:"salt"`
	Rounds int    `json:"rounds"`
	Sum    []byte `json:"sum"`
}

// rounds of PBKDF2 with SHA-256 take some 20 ms.
const rounds = 100_000

func hashOf(code string, rounds int) hash {
	h := hash{Salt: make([]byte, 16), Rounds: rounds}
	_, _ = rand.Read(h.Salt) // it never fails
	h.Sum = h.sum(code)
	return h
}

func (h hash) sum(code string) []byte {
	sum, err := pbkdf2.Key(sha256.New, code, h.Salt, h.Rounds, sha256.Size)
	if err != nil {
		return nil // what is stored is damaged, and fits nothing
	}
	return sum
}

// matches reports whether h stands for code, in a time that does not tell how much
// of it is right.
func (h hash) matches(code string) bool {
	return len(h.Sum) == sha256.Size && 0 < h.Rounds && h.Rounds <= 100*rounds && subtle.ConstantTimeCompare(h.Sum, h.sum(code)) == 1
}

// maxName is the length of a name that is kept, in characters.
const maxName = 64

// clean makes one short line of a name.
func clean(name string) string {
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
	if r := []rune(name); len(r) > maxName {
		name = strings.TrimSpace(string(r[:maxName]))
	}
	return name
}
