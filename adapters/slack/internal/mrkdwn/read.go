package mrkdwn

import "strings"

// A Reference is an entity in Slack's message format, such as <@U1> or
// <https://example.com|here>.
type Reference struct {
	// Mark is '@' for a user, '#' for a channel, '!' for a group or a date, 0 for
	// a link.
	Mark  byte
	ID    string // of the user or the channel; the address of a link
	Label string // as Slack writes it; may be empty
}

// Read returns a user's message as plain text. name returns the text of a
// reference; "" means the reference's default text.
func Read(s string, name func(Reference) string) string {
	var b strings.Builder
	for s != "" {
		open := strings.IndexByte(s, '<')
		if open < 0 {
			break
		}
		end := strings.IndexByte(s[open:], '>')
		if end < 0 {
			break
		}
		b.WriteString(Unescape(s[:open]))
		b.WriteString(read(s[open+1:open+end], name))
		s = s[open+end+1:]
	}
	b.WriteString(Unescape(s))
	return b.String()
}

// Unescape undoes Escape.
func Unescape(s string) string {
	return strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">").Replace(s)
}

func read(inner string, name func(Reference) string) string {
	id, label, _ := strings.Cut(inner, "|")
	r := Reference{ID: id, Label: Unescape(label)}
	if id != "" && strings.IndexByte("@#!", id[0]) >= 0 {
		r.Mark, r.ID = id[0], id[1:]
	}
	if s := name(r); s != "" {
		return s
	}
	switch r.Mark {
	case '@', '#':
		if r.Label != "" {
			return string(r.Mark) + strings.TrimLeft(r.Label, "@#")
		}
		return string(r.Mark) + r.ID
	case '!':
		if r.Label != "" {
			return r.Label
		}
		word, _, _ := strings.Cut(r.ID, "^")
		return "@" + word
	}
	return Link(Unescape(r.ID), r.Label)
}

// Link returns a link as plain text: its label and its address, unless the label
// is the address.
func Link(address, label string) string {
	_, bare, _ := strings.Cut(address, ":")
	bare = strings.TrimPrefix(bare, "//")
	switch label {
	case "", address, bare, strings.TrimSuffix(bare, "/"):
		return address
	}
	return label + " (" + address + ")"
}
