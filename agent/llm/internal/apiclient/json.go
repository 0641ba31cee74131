package apiclient

import (
	"bytes"
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"hermesd/agent/llm"
)

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. Equal strings always give equal bytes. Bytes
// that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, c)
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// maxImage is the maximum size of an image that is sent, in bytes; the limits of services
// are far lower.
const maxImage = 32 << 20

// AppendImage appends the image file of b in base64 and reports whether it could be read.
func AppendImage(dst []byte, b llm.Block) ([]byte, bool) {
	info, err := os.Stat(b.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > maxImage {
		return dst, false
	}
	data, err := os.ReadFile(b.Path)
	if err != nil || len(data) == 0 {
		return dst, false
	}
	return base64.StdEncoding.AppendEncode(dst, data), true
}

// MissingImage is sent in place of an image that can no longer be read.
const MissingImage = "[a picture that is no longer available]"

// Blank reports whether s contains only white space, which services reject as text.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }

// Name returns name in a form that services accept for a tool. A valid name is unchanged.
func Name(name string) string {
	const maxLen = 64
	clean := Ident(name)
	if clean == "" {
		return "unknown"
	}
	return clean[:min(len(clean), maxLen)]
}

// Ident returns s with every character that is invalid in identifiers replaced by an
// underscore.
func Ident(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}

// Mark returns the JSON member that makes a block a cache breakpoint, with a leading comma;
// "" for no breakpoint.
func Mark(ttl string) string {
	switch ttl {
	case "":
		return ""
	case "1h":
		return `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
	}
	return `,"cache_control":{"type":"ephemeral"}`
}

// Tools encodes the tools of requests. It keeps the bytes of the last ones, because most
// requests of a process have the same tools. Its methods may be called from any goroutine.
type Tools struct{ last atomic.Pointer[encodedTools] }

type encodedTools struct {
	tools   []llm.Tool
	encoded []byte
}

// Append appends tools to b, encoded by encode and separated by commas. encode must depend
// on the tool only.
func (c *Tools) Append(b *Body, tools []llm.Tool, encode func(dst []byte, t llm.Tool) []byte) {
	last := c.last.Load()
	if last == nil || !slices.EqualFunc(last.tools, tools, llm.Tool.Equal) {
		last = &encodedTools{tools: slices.Clone(tools)}
		for i, t := range tools {
			if i > 0 {
				last.encoded = append(last.encoded, ',')
			}
			last.tools[i].Schema = bytes.Clone(t.Schema)
			last.encoded = encode(last.encoded, t)
		}
		c.last.Store(last)
	}
	b.Share(last.encoded)
}
