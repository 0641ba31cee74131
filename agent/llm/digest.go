package llm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// A Digest is a cumulative hash: it is computed from the Digest before it and from what was
// added. Equal digests mean equal beginnings. It is the same in every process and version.
type Digest [12]byte

// String returns d in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *Digest) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(string(b))
	if err != nil || len(raw) != len(d) {
		return fmt.Errorf("digest %q does not have %d hexadecimal digits", b, 2*len(d))
	}
	copy(d[:], raw)
	return nil
}

// Add returns the digest of d followed by parts. The boundaries between parts are part of
// the hash.
func (d Digest) Add(parts ...string) Digest {
	buf := append(make([]byte, 0, 1<<10), d[:]...)
	for _, p := range parts {
		buf = append(binary.AppendUvarint(buf, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(buf)
	copy(d[:], sum[:])
	return d
}

// Message returns the digest of d followed by m.
func (d Digest) Message(m Message) Digest {
	parts := append(make([]string, 0, 32), string(m.Role), m.Dialect, string(m.Raw))
	for _, b := range m.Blocks {
		failed := ""
		if b.Failed {
			failed = "failed"
		}
		parts = append(parts, string(b.Type), b.Text, b.ID, b.Name, string(b.Input), failed, b.MIME, b.Path)
	}
	return d.Add(parts...)
}

// Digests returns the digests of the first n messages: element i covers messages 0 to i.
// They are cached, so that a call hashes only new messages. The result never changes, and
// the caller must not change it.
func (t *Transcript) Digests(n int) []Digest {
	var last Digest
	if len(t.digests) > 0 {
		last = t.digests[len(t.digests)-1]
	}
	for i := len(t.digests); i < n; i++ {
		last = last.Message(t.messages[i])
		t.digests = append(t.digests, last)
	}
	return t.digests[:n:n]
}

// Sum returns the sum of of(m) over the first n messages. Sums are cached under key, so
// that a call evaluates only new messages. of must be pure and always the same function for
// a key.
func (t *Transcript) Sum(key string, n int, of func(Message) int) int {
	if t.sums == nil {
		t.sums = make(map[string][]int)
	}
	sums := t.sums[key]
	total := 0
	if len(sums) > 0 {
		total = sums[len(sums)-1]
	}
	for i := len(sums); i < n; i++ {
		total += of(t.messages[i])
		sums = append(sums, total)
	}
	t.sums[key] = sums
	if n == 0 {
		return 0
	}
	return sums[n-1]
}
