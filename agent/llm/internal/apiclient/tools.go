package apiclient

import (
	"bytes"
	"slices"
	"sync/atomic"

	"hermesd/agent/llm"
)

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
	if last == nil || !slices.EqualFunc(last.tools, tools, equalTools) {
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

func equalTools(a, b llm.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
}
