package telegram

import (
	"cmp"
	"encoding/json"
	"slices"
	"unicode/utf16"
)

const (
	maxText     = 4096 // UTF-16 units after parsing
	maxCaption  = 1024
	maxSource   = 1 << 15 // bytes before parsing
	maxEntities = 100
)

// format parses the text that a bot sent, validates and cleans it, trims white
// space, and adds the mentions, links and commands that it finds.
func format(text, mode, entities string) (rich, *apiError) {
	if len(text) > maxSource {
		return rich{}, badRequest("text is too long")
	}
	if err := validUTF8(text); err != nil {
		return rich{}, err
	}
	out := rich{text: text}
	var err *apiError
	switch {
	case text != "" && mode != "" && mode != "none":
		out, err = parseMode(text, mode)
	case entities != "":
		out.entities, err = readEntities(entities)
	}
	if err != nil {
		return rich{}, err
	}
	return fix(out)
}

var givenTypes = map[string]bool{
	"bold": true, "italic": true, "underline": true, "strikethrough": true, "spoiler": true, "code": true, "pre": true,
	"text_link": true, "text_mention": true, "custom_emoji": true, "blockquote": true, "expandable_blockquote": true,
}

// foundTypes are the entity types that only the server sets; those in a request
// are ignored.
var foundTypes = map[string]bool{
	"mention": true, "hashtag": true, "cashtag": true, "bot_command": true, "url": true, "email": true,
	"phone_number": true, "bank_card_number": true,
}

// readEntities parses the entities of a call. Like the real server it ignores a
// list that is not JSON.
func readEntities(raw string) ([]Entity, *apiError) {
	var list []json.RawMessage
	if json.Unmarshal([]byte(raw), &list) != nil {
		return nil, nil
	}
	var out []Entity
	for _, item := range list {
		var e struct {
			Entity
			Offset *int `json:"offset"`
			Length *int `json:"length"`
		}
		if err := json.Unmarshal(item, &e); err != nil {
			return nil, badRequest("can't parse MessageEntity: expected an Object")
		}
		switch {
		case e.Offset == nil:
			return nil, badRequest("can't parse MessageEntity: Field \"offset\" must be a Number")
		case e.Length == nil:
			return nil, badRequest("can't parse MessageEntity: Field \"length\" must be a Number")
		case foundTypes[e.Type]:
			continue
		case e.Type == "":
			return nil, badRequest("can't parse MessageEntity: Type is not specified")
		case !givenTypes[e.Type]:
			return nil, badRequest("can't parse MessageEntity: Unsupported type specified")
		case *e.Offset < 0 || *e.Offset > 1000000:
			return nil, badRequest("receive an entity with incorrect offset %d", *e.Offset)
		case *e.Length < 0 || *e.Length > 1000000:
			return nil, badRequest("receive an entity with incorrect length %d", *e.Length)
		}
		e.Entity.Offset, e.Entity.Length = *e.Offset, *e.Length
		if e.Type == "text_link" {
			if e.URL = checkedLink(e.URL); e.URL == "" {
				continue
			}
		}
		if e.Entity.Length > 0 {
			out = append(out, e.Entity)
		}
	}
	return out, nil
}

// fix validates the entities against the text, resolves overlaps, cleans and
// trims the text and adds the entities that the server finds.
func fix(in rich) (rich, *apiError) {
	given := len(in.entities)
	if given > maxEntities {
		in.entities = in.entities[:maxEntities]
	}
	if err := checkBounds(in.text, in.entities); err != nil {
		return rich{}, err
	}
	settled, corrected := settle(in.entities)
	out := clean(in.text, settled)
	out.corrected = corrected + max(0, given-maxEntities)
	out = trim(out)
	out.entities = addFound(out.entities, find(out.text))
	return out, nil
}

// checkBounds refuses entities that exceed the text or split a character.
func checkBounds(text string, entities []Entity) *apiError {
	if len(entities) == 0 {
		return nil
	}
	starts := map[int]bool{}
	n := 0
	for _, r := range text {
		starts[n] = true
		n++
		if r > 0xffff {
			n++
		}
	}
	starts[n] = true
	for _, e := range entities {
		switch {
		case e.Offset > n:
			return badRequest("entity begins after the end of the text at UTF-16 offset %d", e.Offset)
		case !starts[e.Offset]:
			return badRequest("entity begins in a middle of a UTF-16 symbol at byte offset %d", byteOffset(text, e.Offset))
		case e.end() > n:
			return badRequest("entity beginning at UTF-16 offset %d ends after the end of the text at UTF-16 offset %d", e.Offset, e.end())
		case !starts[e.end()]:
			return badRequest("entity beginning at UTF-16 offset %d ends in a middle of a UTF-16 symbol at byte offset %d",
				e.Offset, byteOffset(text, e.end()))
		}
	}
	return nil
}

// byteOffset returns the byte offset of the first character that begins at or
// after a UTF-16 offset.
func byteOffset(text string, offset int) int {
	n := 0
	for i, r := range text {
		if n >= offset {
			return i
		}
		n++
		if r > 0xffff {
			n++
		}
	}
	return len(text)
}

func splittable(kind string) bool {
	switch kind {
	case "bold", "italic", "underline", "strikethrough", "spoiler":
		return true
	}
	return false
}

func quoting(kind string) bool { return kind == "blockquote" || kind == "expandable_blockquote" }

var typeOrder = map[string]int{
	"blockquote": -2, "expandable_blockquote": -2, "pre": -1, "code": 10, "bold": 2, "italic": 3, "underline": 4,
	"strikethrough": 5, "spoiler": 6,
}

// sortEntities puts outer entities before those inside them.
func sortEntities(list []Entity) {
	slices.SortStableFunc(list, func(a, b Entity) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Length, a.Length),
			cmp.Compare(typeOrder[a.Type], typeOrder[b.Type]))
	})
}

// settle orders and nests entities as the server allows and counts those that
// it had to change: continuous ones (links, mentions, code) and quotes never
// overlap their own kind; styles are split where they cross others and removed
// inside code.
func settle(list []Entity) ([]Entity, int) {
	list = slices.Clone(list)
	sortEntities(list)
	var quotes, continuous, styles []Entity
	for _, e := range list {
		switch {
		case quoting(e.Type):
			quotes = appendApart(quotes, e)
		case splittable(e.Type):
			styles = append(styles, e)
		default:
			continuous = appendApart(continuous, e)
		}
	}
	continuous = slices.DeleteFunc(continuous, func(e Entity) bool {
		return slices.ContainsFunc(quotes, func(q Entity) bool { return overlaps(e, q) && !contains(q, e) })
	})
	out := append(quotes, continuous...)
	out = append(out, splitStyles(mergeStyles(styles), out)...)
	sortEntities(out)
	return out, difference(list, out)
}

func overlaps(a, b Entity) bool { return a.Offset < b.end() && b.Offset < a.end() }

func contains(outer, inner Entity) bool {
	return outer.Offset <= inner.Offset && inner.end() <= outer.end()
}

func appendApart(list []Entity, e Entity) []Entity {
	if n := len(list); n > 0 && e.Offset < list[n-1].end() {
		return list
	}
	return append(list, e)
}

// mergeStyles joins styles of one type that touch or overlap.
func mergeStyles(list []Entity) []Entity {
	var out []Entity
	last := map[string]int{}
	for _, e := range list {
		if i, ok := last[e.Type]; ok && e.Offset <= out[i].end() {
			out[i].Length = max(out[i].end(), e.end()) - out[i].Offset
			continue
		}
		last[e.Type] = len(out)
		out = append(out, e)
	}
	return out
}

// splitStyles splits styles at the bounds of others and removes the parts
// inside code.
func splitStyles(styles, others []Entity) []Entity {
	var out []Entity
	for _, e := range styles {
		pieces := []Entity{e}
		for _, o := range others {
			var next []Entity
			for _, p := range pieces {
				next = append(next, cutBy(p, o)...)
			}
			pieces = next
		}
		out = append(out, pieces...)
	}
	for again := true; again; {
		out, again = cutOneCrossing(out)
	}
	return out
}

// cutBy splits a style at the bounds of o; the part inside code is dropped.
func cutBy(e, o Entity) []Entity {
	code := o.Type == "code" || o.Type == "pre"
	if !overlaps(e, o) || !code && (contains(e, o) || contains(o, e)) {
		return []Entity{e}
	}
	var out []Entity
	add := func(from, to int) {
		if from < to {
			piece := e
			piece.Offset, piece.Length = from, to-from
			out = append(out, piece)
		}
	}
	add(e.Offset, o.Offset)
	if !code {
		add(max(e.Offset, o.Offset), min(e.end(), o.end()))
	}
	add(o.end(), e.end())
	return out
}

// cutOneCrossing splits the first style that crosses a later one.
func cutOneCrossing(list []Entity) ([]Entity, bool) {
	sortEntities(list)
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.Offset < b.Offset && b.Offset < a.end() && a.end() < b.end() {
				rest := a
				rest.Offset, rest.Length = b.Offset, a.end()-b.Offset
				list[i].Length = b.Offset - a.Offset
				return append(list, rest), true
			}
		}
	}
	return list, false
}

// difference returns the number of entities of before that are not in after.
func difference(before, after []Entity) int {
	n := 0
	for _, e := range before {
		if !slices.Contains(after, e) {
			n++
		}
	}
	return n
}

// clean replaces control characters, removes the characters that the server
// removes, and shifts the entities accordingly.
func clean(text string, entities []Entity) rich {
	var out builder
	moved := map[int]int{}
	n := 0
	for _, r := range text {
		moved[n] = out.units
		n++
		if r > 0xffff {
			n++
		}
		switch {
		case r == '\r', r >= 0x2028 && r <= 0x202e, r == 0x333, r == 0x33f, r == 0x30a:
		case r < 32 && r != '\n':
			out.byte(' ')
		default:
			out.rune(r)
		}
	}
	moved[n] = out.units
	var kept []Entity
	for _, e := range entities {
		from, to := moved[e.Offset], moved[e.end()]
		if e.Offset, e.Length = from, to-from; e.Length > 0 {
			kept = append(kept, e)
		}
	}
	return rich{text: out.String(), entities: kept}
}

// trim removes white space from both ends of the text and from the ends of the
// entities; white space inside a first entity stays.
func trim(in rich) rich {
	u := utf16.Encode([]rune(in.text))
	blank := func(i int) bool { return u[i] == ' ' || u[i] == '\n' }
	var kept []Entity
	for _, e := range in.entities {
		for e.Length > 0 && blank(e.Offset) {
			e.Offset, e.Length = e.Offset+1, e.Length-1
		}
		if e.Length > 0 {
			kept = append(kept, e)
		}
	}
	end := len(u)
	for end > 0 && blank(end-1) {
		end--
	}
	begin := 0
	limit := end
	if len(kept) > 0 {
		limit = min(limit, kept[0].Offset)
	}
	for begin < limit && blank(begin) {
		begin++
	}
	for i := range kept {
		kept[i].Length = min(kept[i].end(), end) - kept[i].Offset
		kept[i].Offset -= begin
	}
	return rich{text: string(utf16.Decode(u[begin:end])), entities: kept, corrected: in.corrected}
}
