package telegram

import (
	"strings"
)

// An htmlTag is an open tag.
type htmlTag struct {
	name   string
	arg    string
	offset int // UTF-16 units
	begin  int // byte offset in the result
}

type htmlParser struct {
	text source
	out  builder
	open []htmlTag
	done []Entity
}

// parseHTML parses parse_mode HTML: only the tags of the Bot API.
func parseHTML(text source) (rich, *apiError) {
	p := &htmlParser{text: text}
	for i := 0; i < len(text); {
		c := text[i]
		if c == '&' {
			if r, next := decodeHTMLEntity(text, i); r != 0 {
				if r >= 0xd800 && r <= 0xdfff {
					return rich{}, syntax("Text contains invalid Unicode characters after decoding HTML entities, check for unmatched surrogate code units")
				}
				p.out.rune(r)
				i = next
				continue
			}
		}
		if c != '<' {
			p.out.byte(c)
			i++
			continue
		}
		var err *apiError
		if text.at(i+1) == '/' {
			i, err = p.endTag(i)
		} else {
			i, err = p.startTag(i)
		}
		if err != nil {
			return rich{}, err
		}
	}
	if n := len(p.open); n > 0 {
		return rich{}, syntax("Can't find end tag corresponding to start tag \"%s\"", p.open[n-1].name)
	}
	for i := range p.done {
		if p.done[i].Type == "code" {
			p.done[i].Language = ""
		}
	}
	return rich{text: p.out.String(), entities: p.done}, nil
}

var htmlTags = map[string]string{
	"b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline",
	"s": "strikethrough", "strike": "strikethrough", "del": "strikethrough",
	"tg-spoiler": "spoiler", "span": "spoiler", "blockquote": "blockquote",
	"a": "text_link", "pre": "pre", "code": "code", "tg-emoji": "custom_emoji",
}

func (p *htmlParser) startTag(begin int) (int, *apiError) {
	i := begin + 1
	for !isSpace(p.text.at(i)) && p.text.at(i) != '>' {
		i++
	}
	if p.text.at(i) == 0 {
		return 0, syntax("Unclosed start tag at byte offset %d", begin)
	}
	tag := htmlTag{name: strings.ToLower(string(p.text[begin+1 : i])), offset: p.out.units, begin: p.out.Len()}
	if htmlTags[tag.name] == "" {
		return 0, syntax("Unsupported start tag \"%s\" at byte offset %d", tag.name, begin)
	}
	for p.text.at(i) != '>' {
		for p.text.at(i) != 0 && isSpace(p.text.at(i)) {
			i++
		}
		if p.text.at(i) == '>' {
			break
		}
		var err *apiError
		if i, err = p.attribute(&tag, i, begin); err != nil {
			return 0, err
		}
	}
	if tag.name == "span" && tag.arg != "spoiler" {
		return 0, syntax("Tag \"span\" must have class \"tg-spoiler\" at byte offset %d", begin)
	}
	p.open = append(p.open, tag)
	return i + 1, nil
}

// attribute parses one attribute of tag at i and returns the position after it.
func (p *htmlParser) attribute(tag *htmlTag, i, begin int) (int, *apiError) {
	start := i
	for !isSpace(p.text.at(i)) && p.text.at(i) != '=' && (tag.name != "blockquote" || p.text.at(i) != '>') {
		i++
	}
	name := string(p.text[start:min(i, len(p.text))])
	if name == "" {
		return 0, syntax("Empty attribute name in the tag \"%s\" at byte offset %d", tag.name, begin)
	}
	if tag.name == "blockquote" && name == "expandable" {
		tag.arg = name
		return i, nil
	}
	for p.text.at(i) != 0 && isSpace(p.text.at(i)) {
		i++
	}
	if p.text.at(i) != '=' {
		return 0, syntax("Expected equal sign in declaration of an attribute of the tag \"%s\" at byte offset %d", tag.name, begin)
	}
	i++
	for p.text.at(i) != 0 && isSpace(p.text.at(i)) {
		i++
	}
	if p.text.at(i) == 0 {
		return 0, syntax("Unclosed start tag \"%s\" at byte offset %d", tag.name, begin)
	}
	value, i, err := p.attributeValue(i)
	if err != nil {
		return 0, err
	}
	if p.text.at(i) == 0 {
		return 0, syntax("Unclosed start tag at byte offset %d", begin)
	}
	tag.setAttribute(name, value)
	return i, nil
}

func (t *htmlTag) setAttribute(name, value string) {
	switch {
	case t.name == "a" && name == "href", t.name == "tg-emoji" && name == "emoji-id":
		t.arg = value
	case t.name == "code" && name == "class" && strings.HasPrefix(value, "language-"):
		t.arg = value[len("language-"):]
	case t.name == "span" && name == "class" && strings.HasPrefix(value, "tg-"):
		t.arg = value[len("tg-"):]
	}
}

func (p *htmlParser) attributeValue(i int) (string, int, *apiError) {
	quote := p.text.at(i)
	if quote != '\'' && quote != '"' {
		start := i
		for isAlnum(p.text.at(i)) || p.text.at(i) == '.' || p.text.at(i) == '-' {
			i++
		}
		if !isSpace(p.text.at(i)) && p.text.at(i) != '>' {
			return "", 0, syntax("Unexpected end of name token at byte offset %d", start)
		}
		return strings.ToLower(string(p.text[start:i])), i, nil
	}
	var value strings.Builder
	for i++; p.text.at(i) != quote && p.text.at(i) != 0; {
		if p.text[i] == '&' {
			if r, next := decodeHTMLEntity(p.text, i); r != 0 {
				_, _ = value.WriteRune(r)
				i = next
				continue
			}
		}
		_ = value.WriteByte(p.text[i])
		i++
	}
	if p.text.at(i) == quote {
		i++
	}
	return value.String(), i, nil
}

func (p *htmlParser) endTag(begin int) (int, *apiError) {
	if len(p.open) == 0 {
		return 0, syntax("Unexpected end tag at byte offset %d", begin)
	}
	i := begin + 2
	for !isSpace(p.text.at(i)) && p.text.at(i) != '>' {
		i++
	}
	name := strings.ToLower(string(p.text[begin+2 : min(i, len(p.text))]))
	for p.text.at(i) != 0 && isSpace(p.text.at(i)) {
		i++
	}
	if p.text.at(i) != '>' {
		return 0, syntax("Unclosed end tag at byte offset %d", begin)
	}
	tag := p.open[len(p.open)-1]
	if name != "" && name != tag.name {
		return 0, syntax("Unmatched end tag at byte offset %d, expected \"</%s>\", found \"</%s>\"", begin, tag.name, name)
	}
	p.open = p.open[:len(p.open)-1]
	if p.out.units > tag.offset {
		if err := p.close(tag); err != nil {
			return 0, err
		}
	}
	return i + 1, nil
}

// close creates the entity of tag, which ends here, unless it is empty.
func (p *htmlParser) close(tag htmlTag) *apiError {
	e := Entity{Type: htmlTags[tag.name], Offset: tag.offset, Length: p.out.units - tag.offset}
	switch tag.name {
	case "a":
		address := tag.arg
		if address == "" {
			address = p.out.String()[tag.begin:]
		}
		link, ok := linkEntity(address, e.Offset, e.Length)
		if !ok {
			return nil
		}
		e = link
	case "tg-emoji":
		emoji, err := emojiEntity(tag.arg, e.Offset, e.Length)
		if err != nil {
			return err
		}
		e = emoji
	case "blockquote":
		if tag.arg == "expandable" {
			e.Type = "expandable_blockquote"
		}
	case "pre", "code":
		e.Language = tag.arg // language of code: kept until it is known whether a pre encloses it
		if p.mergeCode(e) {
			return nil
		}
	}
	p.done = append(p.done, e)
	return nil
}

// mergeCode merges <pre><code class="language-x"> into one pre with a language.
func (p *htmlParser) mergeCode(e Entity) bool {
	if len(p.done) == 0 {
		return false
	}
	last := &p.done[len(p.done)-1]
	if last.Offset != e.Offset || last.Length != e.Length {
		return false
	}
	switch {
	case e.Type == "pre" && last.Type == "code" && last.Language != "":
		last.Type = "pre"
		return true
	case e.Type == "code" && last.Type == "pre" && e.Language != "":
		last.Language = e.Language
		return true
	}
	return false
}
