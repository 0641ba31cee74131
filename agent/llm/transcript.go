package llm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// A Transcript is a list of messages that grows only at its end. It caches the wire form of
// its messages per dialect, so that a request encodes only new messages and not the whole
// history. It is not safe for concurrent use.
type Transcript struct {
	messages        []Message
	wires           map[string]*wire
	digests         []Digest         // of the first len(digests) messages
	sums            map[string][]int // by key; of the first messages
	calls           map[string]struct{}
	indexedMessages int // number of messages that calls covers
}

// wire is the encoding of the first len(ends) messages. Message i is
// buf[ends[i-1]:ends[i]].
type wire struct {
	buf  []byte
	ends []int
}

// NewTranscript returns a transcript of messages, which it takes over.
func NewTranscript(messages ...Message) *Transcript { return &Transcript{messages: messages} }

// Len returns the number of messages.
func (t *Transcript) Len() int { return len(t.messages) }

// At returns message i. The caller must not change what it refers to.
func (t *Transcript) At(i int) Message { return t.messages[i] }

// Since returns the messages from i on. The caller must not change them.
func (t *Transcript) Since(i int) []Message { return t.messages[i:len(t.messages):len(t.messages)] }

// Append adds messages at the end.
func (t *Transcript) Append(ms ...Message) { t.messages = append(t.messages, ms...) }

// Truncate removes the messages from n on. It undoes appends that were never stored.
func (t *Transcript) Truncate(n int) {
	clear(t.messages[n:])
	t.messages = t.messages[:n]
	if t.indexedMessages > n {
		t.calls, t.indexedMessages = nil, 0
	}
	if len(t.digests) > n {
		t.digests = t.digests[:n:n] // slices that were returned keep their contents
	}
	for key, s := range t.sums {
		t.sums[key] = s[:min(len(s), n)]
	}
	for _, w := range t.wires {
		if len(w.ends) > n {
			w.ends = w.ends[:n]
			w.buf = w.buf[:w.end(n):w.end(n)] // slices that were returned keep their contents
		}
	}
}

func (w *wire) end(n int) int {
	if n == 0 {
		return 0
	}
	return w.ends[n-1]
}

// Wire returns the concatenated encodings of the first n messages, as appended by encode
// (separators included), and caches them. encode must be pure: it is called once per
// message and dialect. The caller must not change the result, which stays valid whatever
// happens to t.
func (t *Transcript) Wire(dialect string, n int, encode func(dst []byte, m Message) []byte) []byte {
	w := t.wires[dialect]
	if w == nil {
		if t.wires == nil {
			t.wires = make(map[string]*wire)
		}
		w = &wire{}
		t.wires[dialect] = w
	}
	for i := len(w.ends); i < n; i++ {
		w.buf = encode(w.buf, t.messages[i])
		w.ends = append(w.ends, len(w.buf))
	}
	return w.buf[:w.end(n):w.end(n)]
}

// HasCall reports whether the transcript has a call with this ID. Like Calls, it examines
// only the messages added since the last use.
func (t *Transcript) HasCall(id string) bool {
	t.indexCalls()
	_, ok := t.calls[id]
	return ok
}

// Calls returns the number of distinct call IDs in the transcript.
func (t *Transcript) Calls() int {
	t.indexCalls()
	return len(t.calls)
}

func (t *Transcript) indexCalls() {
	if t.calls == nil {
		t.calls = make(map[string]struct{})
	}
	for ; t.indexedMessages < len(t.messages); t.indexedMessages++ {
		for _, b := range t.messages[t.indexedMessages].Blocks {
			if b.Type == ToolUse {
				t.calls[b.ID] = struct{}{}
			}
		}
	}
}

// Replace replaces all messages by ms, which it takes over, and discards all cached
// encodings. It is used by compactions.
func (t *Transcript) Replace(ms []Message) { *t = Transcript{messages: ms} }

// ValidInput reports whether b is valid as the input of a call: a JSON object with nothing
// after it.
//
// If a model wrote anything else, its provider puts {} into Block.Input, so that the
// message remains valid in later requests, and the model's text into Block.Text. The agent
// answers such a call with a failed result and runs nothing. A ToolUse block with a Text is
// therefore never executed.
func ValidInput(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}

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
