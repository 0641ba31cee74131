package terminal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"hermesd/agent/tool"
	"hermesd/internal/spawn"
)

// report returns the result for a command that has ended.
func (t *Terminal) report(r spawn.Result, limit time.Duration, n network) string {
	notes := append([]string{describeEnd(r, limit)}, n.notes(r)...)
	if r.OutputHeldOpen {
		notes = append(notes, "something that it started goes on outside of its reach and holds its output open")
	}
	return t.compose(r.Output, append(notes, t.spillNotes(r.Output)...))
}

// describeEnd describes how a command ended.
func describeEnd(r spawn.Result, limit time.Duration) string {
	took := r.Took.Round(time.Millisecond)
	if took > time.Minute {
		took = r.Took.Round(time.Second)
	}
	all := ", and all that it had started was ended with it"
	switch {
	case errors.Is(r.Cause, spawn.ErrTimeout):
		return fmt.Sprintf("ended: it took longer than its timeout of %v%s; give it more time, or run it in the background", limit, all)
	case errors.Is(r.Cause, spawn.ErrFlood):
		return fmt.Sprintf("ended: it wrote more than %d MiB%s; let it write less, or into a file", spawn.DefaultMost>>20, all)
	case errors.Is(r.Cause, spawn.ErrDisk):
		return fmt.Sprintf("ended after %v: %v%s; delete files that are not needed, or write less", took, r.Cause, all)
	case r.Cause != nil:
		return fmt.Sprintf("ended after %v: %v%s", took, r.Cause, all)
	case r.Signal != "":
		return fmt.Sprintf("exit code %d after %v: a signal ended it: %s", r.Code, took, r.Signal)
	}
	return fmt.Sprintf("exit code %d after %v", r.Code, took)
}

// spillNotes returns a note about the file with the whole output, if the output is not
// complete in the result.
func (t *Terminal) spillNotes(o spawn.Output) []string {
	switch {
	case o.File != "" && o.FileErr != nil:
		return []string{fmt.Sprintf("the beginning of the output is in %s; the rest could not be written: %v", o.File, o.FileErr)}
	case o.File != "":
		return []string{fmt.Sprintf("the whole output, %d bytes, is in %s for a day", o.Total, o.File)}
	case o.Lost > 0 && o.FileErr != nil:
		return []string{fmt.Sprintf("the rest of the output is lost: %v", o.FileErr)}
	case o.Lost > 0:
		return []string{"the rest of the output is lost"}
	}
	return nil
}

// compose combines output and notes.
func (t *Terminal) compose(o spawn.Output, notes []string) string {
	body := t.readable(o)
	body = cmp.Or(body, "(no output)")
	return body + "\n\n[" + strings.Join(notes, "]\n[") + "]"
}

// readable returns output as masked text, truncated to MaxOutput.
func (t *Terminal) readable(o spawn.Output) string {
	if o.Lost == 0 {
		all := append(bytes.Clone(o.Head), o.Tail...)
		if isBinary(all) {
			return fmt.Sprintf("(%d bytes that are no text; write them into a file to work with them)", len(all))
		}
		return tool.Truncate(t.o.Secrets.Mask(clean(all)), t.o.MaxOutput)
	}
	if isBinary(o.Head) || isBinary(o.Tail) {
		return fmt.Sprintf("(%d bytes that are no text; write them into a file to work with them)", o.Total)
	}
	head, tail := []rune(t.o.Secrets.Mask(clean(o.Head))), []rune(t.o.Secrets.Mask(clean(o.Tail)))
	head = head[:min(len(head), t.o.MaxOutput*2/3)]
	tail = tail[max(0, len(tail)-t.o.MaxOutput/3):]
	return fmt.Sprintf("%s\n\n[… the middle of %d bytes is left out here …]\n\n%s", string(head), o.Total, string(tail))
}

// isBinary reports whether b is not text: more than 30 % of its first 8000 bytes are invalid
// or control characters that text does not contain.
func isBinary(b []byte) bool {
	b = b[:min(len(b), 8000)]
	bad := 0
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 && (len(rest) >= utf8.UTFMax || utf8.FullRune(rest)) || r < ' ' && !strings.ContainsRune("\t\n\v\f\r\b\a\x1b", r) {
			bad++
		}
		rest = rest[n:]
	}
	return bad*10 > len(b)*3
}

// clean converts terminal output to plain text: without escape sequences and control
// characters, and with only the last state of a line that was overwritten.
func clean(b []byte) string {
	s := ansi.Strip(strings.ToValidUTF8(string(b), "\uFFFD"))
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		l = strings.TrimRight(l, "\r")
		lines[i] = l[strings.LastIndexByte(l, '\r')+1:]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == 0:
			return '␀'
		case r == '\n' || r == '\t' || !unicode.IsControl(r):
			return r
		}
		return -1
	}, strings.Join(lines, "\n"))
	return strings.TrimRight(s, "\n")
}
