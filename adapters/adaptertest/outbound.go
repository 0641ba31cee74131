package adaptertest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"hermesd/gateway/chat"
	"hermesd/gateway/session"
)

// outcomes checks that a failed send reports its outcome at once, and never
// claims that a message did not arrive that users can read.
func (s *stage) outcomes() {
	r := s.start("")
	for i, f := range s.w.Faults() {
		room := s.w.Direct("", i)
		room.Say("hello")
		pass(time.Second)
		f.Inject()
		begin := time.Now()
		text := "after " + f.Name
		_, err := r.a.Send(s.Context(), chat.Outbound{ID: "o" + f.Name, To: room.At(), Text: chat.PlainText(text)})
		took := time.Since(begin)
		visible := slices.Contains(room.Visible(), text)
		var se *chat.SendError
		switch {
		case err == nil:
			s.Errorf("%s: the send says that it succeeded (visible: %v)", f.Name, visible)
			continue
		case !errors.As(err, &se):
			s.Errorf("%s: %v is no SendError", f.Name, err)
			continue
		case se.Outcome != chat.Uncertain && visible:
			s.Errorf("%s: outcome %v, but people can read it", f.Name, se.Outcome)
		}
		if se.Outcome != f.Outcome || se.RetryAfter != f.After || se.Reason == "" {
			s.Errorf("%s: outcome %v after %v (%q), want %v after %v", f.Name, se.Outcome, se.RetryAfter, se.Reason, f.Outcome, f.After)
		}
		if se.Outcome != chat.Uncertain && took > 5*time.Second {
			s.Errorf("%s: the send waited for %v", f.Name, took)
		}
		s.keepsSecret(f.Name, err)
		if n := len(room.Visible()); n > 1 {
			s.Errorf("%s: %d messages for one send", f.Name, n)
		}
	}
	room := s.w.Direct("", 99)
	room.Say("hello")
	pass(time.Second)
	if _, err := r.a.Send(s.Context(), chat.Outbound{ID: "last", To: room.At(), Text: chat.PlainText("well again")}); err != nil {
		s.Errorf("after all faults: %v", err)
	}
}

// size checks that a text that fits by Capabilities is sent whole, and that a
// longer one is rejected rather than silently truncated.
func (s *stage) size() {
	r, room := s.start(""), s.w.Direct("", 0)
	room.Say("hello")
	pass(time.Second)
	f := r.a.Capabilities()
	for _, unit := range []string{"a", "é", "漢", "😀", "👩‍👩‍👧"} {
		text := strings.Repeat(unit, f.MaxTextSize/f.TextSize(chat.PlainText(unit)))
		text += strings.Repeat("z", f.MaxTextSize-f.TextSize(chat.PlainText(text)))
		if got := f.TextSize(chat.PlainText(text)); got != f.MaxTextSize {
			s.Fatalf("size of a full text of %q is %d, not %d", unit, got, f.MaxTextSize)
		}
		if _, err := r.a.Send(s.Context(), chat.Outbound{ID: "full" + unit, To: room.At(), Text: chat.PlainText(text)}); err != nil {
			s.Errorf("a full text of %q: %v", unit, err)
		} else if got := room.Visible(); got[len(got)-1] != text {
			s.Errorf("a full text of %q came out changed", unit)
		}
		n := len(room.Visible())
		_, err := r.a.Send(s.Context(), chat.Outbound{ID: "over" + unit, To: room.At(), Text: chat.PlainText(text + "z")})
		var se *chat.SendError
		if !errors.As(err, &se) || se.Outcome != chat.Permanent || len(room.Visible()) != n {
			s.Errorf("a text of %q that is too long: %v", unit, err)
		}
	}
}

func (s *stage) edits() {
	r, room := s.start(""), s.w.Direct("", 0)
	room.Say("hello")
	pass(time.Second)
	m := chat.Outbound{ID: "o1", To: room.At(), Text: chat.PlainText("first")}
	receipt, err := r.a.Send(s.Context(), m)
	if err != nil {
		s.Fatal(err)
	}
	e, ok := r.a.(chat.Editor)
	if !ok {
		s.Skip("the platform has no edits")
	}
	for range 2 { // the second edit changes nothing and succeeds
		m.Text = chat.PlainText("second")
		if err := e.Edit(s.Context(), receipt.ID, m); err != nil {
			s.Errorf("edit: %v", err)
		}
	}
	if got := room.Visible(); !slices.Equal(got, []string{"second"}) {
		s.Errorf("visible: %q", got)
	}
	if d, ok := r.a.(chat.Deleter); ok {
		for range 2 {
			if err := d.Delete(s.Context(), room.At(), receipt.ID); err != nil {
				s.Errorf("delete: %v", err)
			}
		}
		if got := room.Visible(); len(got) != 0 {
			s.Errorf("visible after delete: %q", got)
		}
		m.ID = "o2" // a new ID: some platforms recognize the first one
		if receipt, err = r.a.Send(s.Context(), m); err != nil {
			s.Fatal(err)
		}
	}
	room.Remove(receipt.ID)
	m.Text = chat.PlainText("third")
	if err := e.Edit(s.Context(), receipt.ID, m); !errors.Is(err, chat.ErrGone) {
		s.Errorf("edit of a message that is gone: %v", err)
	}
}

func (s *stage) mentions() {
	r := s.start("")
	for _, c := range s.w.Mentions() {
		in, ok := s.next(r, c.Say)
		if !ok {
			s.Errorf("%s: nothing arrives", c.Name)
			continue
		}
		if in.Addressed != c.Addressed || (in.IgnoreRule == "") != c.Addressed {
			s.Errorf("%s: addressed %v rule %q, want addressed %v", c.Name, in.Addressed, in.IgnoreRule, c.Addressed)
		}
		if c.Text != "" && in.Text != c.Text {
			s.Errorf("%s: text %q, want %q", c.Name, in.Text, c.Text)
		}
	}
}

// next calls say and returns the event that arrives.
func (s *stage) next(r *run, say func()) (chat.Inbound, bool) {
	n := len(r.inbox.Events())
	say()
	for range 50 {
		pass(100 * time.Millisecond)
		if all := r.inbox.Events(); len(all) > n {
			return all[len(all)-1], true
		}
	}
	return chat.Inbound{}, false
}

func (s *stage) keys() {
	r := s.start("")
	for _, c := range s.w.Keys() {
		in, ok := s.next(r, c.Say)
		if !ok {
			s.Errorf("%s: nothing arrives", c.Name)
			continue
		}
		if c.Key != nil {
			c.Want = c.Key()
		}
		c.Policy.Profiles = chat.ProfilesOf(s.p.Profile)
		if got := session.KeyFor("", in.Address, in.Sender.ID, c.Policy); got != c.Want {
			s.Errorf("%s: key %q, want %q", c.Name, got, c.Want)
		}
	}
}

// files checks that an attachment is fetched whole or not at all, and that names
// and paths from outside cannot point elsewhere.
func (s *stage) files() {
	r := s.start("")
	fetcher, ok := r.a.(chat.FileFetcher)
	if !ok {
		s.Skip("the platform has no files")
	}
	for _, c := range s.w.Files() {
		if c.Limit == 0 {
			c.Limit = 1 << 20
		}
		in, ok := s.next(r, c.Say)
		if !ok || len(in.Files) != 1 {
			s.Errorf("%s: arrives as %+v", c.Name, in)
			continue
		}
		f := in.Files[0]
		if c.Bend != nil {
			f = c.Bend(f)
		}
		var got bytes.Buffer
		err := fetcher.Fetch(s.Context(), f, &got, c.Limit)
		s.keepsSecret(c.Name, err)
		if int64(got.Len()) > c.Limit {
			s.Errorf("%s: %d bytes were written, over the limit", c.Name, got.Len())
		}
		s.judge(c, got.String(), err)
	}
}

func (s *stage) judge(c File, got string, err error) {
	switch {
	case c.Fail == "" && err != nil:
		s.Errorf("%s: %v", c.Name, err)
	case c.Fail == "" && got != c.Want:
		s.Errorf("%s: %d bytes, want %d", c.Name, len(got), len(c.Want))
	case c.Fail != "" && (err == nil || !strings.Contains(err.Error(), c.Fail)):
		s.Errorf("%s: error %v, want one with %q", c.Name, err, c.Fail)
	}
}
