package adaptertest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"hermesd/gateway/chat"
)

// A Delivery describes the delivery guarantees of a platform and its adapter.
// The texts are for users; what can be tested is tested by the suite.
type Delivery struct {
	Platform chat.Platform
	// In describes how inbound events are protected against loss and duplication,
	// and what can still be lost.
	In string
	// KeyIn describes the idempotency key of a message; Key matches the keys that
	// the suite observes.
	KeyIn string
	Key   *regexp.Regexp
	// KeyOut names what identifies an outbound message on the platform. Clear
	// describes how an uncertain send is resolved.
	KeyOut, Clear string
	// Window describes what can still go wrong.
	Window string
	// Lookup is true if the adapter can find out whether a message arrived.
	Lookup bool
	// Once is true if the platform recognizes a message that is sent again.
	Once bool
}

// Deliveries returns the delivery guarantees of all platforms.
func Deliveries() []Delivery {
	return []Delivery{
		{
			Platform: chat.Telegram,
			In:       "The next poll confirms an update only when it is on disk. Telegram keeps what is not confirmed for 24 h.",
			KeyIn:    "chat id : message id", Key: regexp.MustCompile(`^-?[0-9]+:[0-9]+$`),
			KeyOut: "none",
			Clear:  "Cannot be asked: [`delivery.uncertain`](#configuration) decides.",
			Window: "Between the request and its receipt on disk: one marked repeat.",
		},
		{
			Platform: chat.Discord,
			In:       "RESUME repeats what a lost connection missed. Else, and after a restart, the histories of the 500 channels used last are read, up to 24 h back. They lack presses, commands and edits.",
			KeyIn:    "channel id : message id", Key: regexp.MustCompile(`^[0-9]+:[0-9]+$`),
			KeyOut: "a nonce made of the daemon's id, with `enforce_nonce`",
			Clear:  "By the nonce, if this process has seen it; else by the text of the bot's newest message in the channel. What is not found is sent again, and Discord drops it if it knows the nonce.",
			Window: "After a crash and some minutes, when Discord has forgotten the nonce: a text under 64 characters, after which somebody else wrote, is sent again unmarked.",
			Lookup: true, Once: true,
		},
		{
			Platform: chat.Slack,
			In:       "An envelope is acknowledged only when its event is on disk. Slack sends it again after 1 s, 1 min and 5 min; after a longer loss histories are read, and `status` says what could not be seen. Presses and slash commands are sent once: the user sees an error.",
			KeyIn:    "channel id : ts, the same for the message and its mention", Key: regexp.MustCompile(`^[CDG][A-Z0-9]+:[0-9]+\.[0-9]+$`),
			KeyOut: "the daemon's id, as metadata",
			Clear:  "By the metadata in the history of the channel or thread; a file by its id.",
			Window: "An answer to a slash command where the bot is no member, and a file whose id a crash has lost, cannot be looked for: a dead letter after 24 h.",
			Lookup: true,
		},
		{
			Platform: chat.Console,
			In:       "A line is on disk before it is acknowledged, and is sent again if the connection breaks.",
			KeyIn:    "line : the terminal's id",
			KeyOut:   "the daemon's id",
			Clear:    "The terminal says what it has shown. Without one the answer waits.",
			Window:   "A terminal is closed before it could say what it has shown: the next one shows it again.",
			Lookup:   true, Once: true,
		},
		{
			Platform: chat.HTTP,
			In:       "The request is on disk before its turn begins. A repeat with the same `Idempotency-Key` joins it, also after a restart.",
			KeyIn:    "request : the `Idempotency-Key`, else a new one",
			KeyOut:   "the request it answers",
			Clear:    "The client repeats its `Idempotency-Key` and gets the same answer.",
			Window:   "Without an `Idempotency-Key` a repeat is a second message; the answer to a disconnected client is only in the session.",
			Lookup:   true, Once: true,
		},
	}
}

// Markdown renders the deliveries as the tables of docs/delivery.md.
func Markdown(ds []Delivery) string {
	var b strings.Builder
	yes := map[bool]string{true: "yes", false: "no"}
	b.WriteString("| | what comes in | key of a message | key of what goes out | the platform knows a repeat | can be asked |\n|---|---|---|---|---|---|\n")
	for _, d := range ds {
		fmt.Fprintf(&b, "| **%s** | %s | %s | %s | %s | %s |\n", d.Platform, d.In, d.KeyIn, d.KeyOut, yes[d.Once], yes[d.Lookup])
	}
	b.WriteString("\n| | a send with an unknown outcome | what can still happen |\n|---|---|---|\n")
	for _, d := range ds {
		fmt.Fprintf(&b, "| **%s** | %s | %s |\n", d.Platform, d.Clear, d.Window)
	}
	return b.String()
}

// delivery compares an adapter with the guarantees of its platform.
func (s *stage) delivery() {
	ds := Deliveries()
	i := slices.IndexFunc(ds, func(d Delivery) bool { return d.Platform == s.p.Profile.Platform })
	if i < 0 {
		s.Fatalf("nothing is promised for %s", s.p.Profile.Platform)
	}
	d, r, room := ds[i], s.start(""), s.w.Direct("", 0)
	in, ok := s.next(r, func() { room.Say("hello") })
	if !ok || !d.Key.MatchString(in.IdempotencyKey) {
		s.Errorf("the key of a message is %q, promised is %s", in.IdempotencyKey, d.KeyIn)
	}
	_, finds := r.a.(chat.Finder)
	if f := r.a.Capabilities(); f.CanFind != d.Lookup || finds != d.Lookup {
		s.Errorf("it can be asked: features say %v, the adapter %v, promised is %v", f.CanFind, finds, d.Lookup)
	}
	m := chat.Outbound{ID: "o1", To: room.At(), Text: chat.PlainText("the same again")}
	for range 2 {
		if _, err := r.a.Send(s.Context(), m); err != nil {
			s.Fatal(err)
		}
		pass(time.Second)
	}
	if n := len(room.Visible()); (n == 1) != d.Once {
		s.Errorf("sent twice, visible %d times, promised is that a repeat is known: %v", n, d.Once)
	}
	if !finds {
		return
	}
	again := s.w.Connect("") // without memory of the sends
	s.until(s.launch(again, r.inbox).a, chat.Connected, s.p.Period)
	finder := again.(chat.Finder)
	if _, ok, err := finder.Find(s.Context(), m); err != nil || !ok {
		s.Errorf("a message that arrived is not found: %v", err)
	}
	never := chat.Outbound{ID: "o2", To: room.At(), Text: chat.PlainText("never sent")}
	if _, ok, err := finder.Find(s.Context(), never); err != nil || ok {
		s.Errorf("a message that was never sent is found: %v, %v", ok, err)
	}
}
