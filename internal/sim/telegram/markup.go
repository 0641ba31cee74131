package telegram

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A rich is a text with entities, as the server stores it.
type rich struct {
	text      string
	entities  []Entity
	corrected int // number of entities that the server had to cut, move or drop
}

// units returns the length of s in UTF-16 units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// byteUnits returns the number of UTF-16 units that begin with the UTF-8 byte
// c.
func byteUnits(c byte) int {
	switch {
	case c&0xc0 == 0x80:
		return 0
	case c >= 0xf0:
		return 2
	}
	return 1
}

// A source is a text that is parsed. Reads past its end return zero bytes.
type source string

func (s source) at(i int) byte {
	if i < 0 || i >= len(s) {
		return 0
	}
	return s[i]
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == 0 || c == '\v'
}

// parseMode parses a text with markup into text and entities.
func parseMode(text, mode string) (rich, *apiError) {
	var out rich
	var err *apiError
	switch strings.ToLower(mode) {
	case "html":
		out, err = parseHTML(source(text))
	case "markdownv2":
		out, err = parseMarkdownV2(source(text))
	case "markdown":
		out, err = parseMarkdown(source(text))
	default:
		return rich{}, badRequest("unsupported parse_mode")
	}
	if err != nil {
		return rich{}, badRequest("can't parse entities: %s", err.description)
	}
	return out, nil
}

func syntax(format string, args ...any) *apiError {
	e := badRequest(format, args...)
	e.description = strings.TrimPrefix(e.description, "Bad Request: ")
	return e
}

// linkEntity returns the entity of a link: a mention of a user or a link. It
// reports false if the address is invalid.
func linkEntity(address string, offset, length int) (Entity, bool) {
	if rest, ok := strings.CutPrefix(address, "tg://user?id="); ok {
		if id, err := strconv.ParseInt(rest, 10, 64); err == nil && id > 0 {
			return Entity{Type: "text_mention", Offset: offset, Length: length, User: &Person{ID: id}}, true
		}
	}
	if address = checkedLink(address); address == "" {
		return Entity{}, false
	}
	return Entity{Type: "text_link", Offset: offset, Length: length, URL: address}, true
}

// checkedLink normalizes an address as the server does; "" if it cannot be an
// address.
func checkedLink(address string) string {
	address = strings.TrimSpace(address)
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "http", address
	}
	switch strings.ToLower(scheme) {
	case "tg", "ton", "tonsite":
		return address
	case "http", "https":
	default:
		return ""
	}
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	if host == "" || strings.ContainsAny(host, " \n\"<>") || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return ""
	}
	if !strings.Contains(rest, "/") {
		rest += "/"
	}
	return strings.ToLower(scheme) + "://" + rest
}

func emojiEntity(id string, offset, length int) (Entity, *apiError) {
	if n, err := strconv.ParseInt(id, 10, 64); err != nil || n == 0 {
		return Entity{}, syntax("Invalid custom emoji identifier specified")
	}
	return Entity{Type: "custom_emoji", Offset: offset, Length: length, CustomEmojiID: id}, nil
}

// decodeHTMLEntity decodes a character reference at text[i] == '&'. It returns
// the rune and the position after it, or rune 0 if there is no character
// reference.
func decodeHTMLEntity(text source, i int) (rune, int) {
	end := i + 1
	var r rune
	if text.at(end) == '#' {
		end++
		base := 10
		if text.at(end) == 'x' {
			base, end = 16, end+1
		}
		start := end
		for isAlnum(text.at(end)) {
			end++
		}
		n, err := strconv.ParseInt(string(text[start:end]), base, 32)
		if err != nil || n <= 0 || n >= 0x10ffff || end-i >= 10 {
			return 0, i
		}
		r = rune(n)
	} else {
		for isAlpha(text.at(end)) {
			end++
		}
		switch string(text[i+1 : end]) {
		case "lt":
			r = '<'
		case "gt":
			r = '>'
		case "amp":
			r = '&'
		case "quot":
			r = '"'
		default:
			return 0, i
		}
	}
	if text.at(end) == ';' {
		end++
	}
	return r, end
}

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isAlnum(c byte) bool { return isAlpha(c) || c >= '0' && c <= '9' }

// A builder collects the text without markup and counts its UTF-16 units.
type builder struct {
	strings.Builder
	units int
}

func (b *builder) byte(c byte) {
	b.units += byteUnits(c)
	_ = b.WriteByte(c)
}

func (b *builder) rune(r rune) {
	b.units++
	if r > 0xffff {
		b.units++
	}
	_, _ = b.WriteRune(r)
}

func validUTF8(text string) *apiError {
	if !utf8.ValidString(text) {
		return badRequest("strings must be encoded in UTF-8")
	}
	return nil
}
