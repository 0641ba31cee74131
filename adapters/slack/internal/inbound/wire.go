package inbound

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// An Envelope is a message received on a socket. Type determines the form of the
// payload.
type Envelope struct {
	Type    string          `json:"type"`
	ID      string          `json:"envelope_id"`
	Payload json.RawMessage `json:"payload"`
}

// The types of envelopes that are processed.
const (
	EventsAPI    = "events_api"
	Interactive  = "interactive"
	SlashCommand = "slash_commands"
)

// Open decodes an envelope without its payload; ok is false if raw is not an
// envelope.
func Open(raw []byte) (e Envelope, ok bool) {
	err := json.Unmarshal(raw, &e)
	return e, err == nil && e.ID != ""
}

// A Body is a message in Slack's form, as in events and histories.
type Body struct {
	Type        string `json:"type"`
	Subtype     string `json:"subtype"`
	Channel     string `json:"channel"`
	ChannelType string `json:"channel_type"`
	User        string `json:"user"`
	BotID       string `json:"bot_id"`
	Username    string `json:"username"`
	BotProfile  *struct {
		Name string `json:"name"`
	} `json:"bot_profile"`
	Text         string          `json:"text"`
	TS           string          `json:"ts"`
	ThreadTS     string          `json:"thread_ts"`
	ParentUserID string          `json:"parent_user_id"`
	Hidden       bool            `json:"hidden"`
	Edited       *edited         `json:"edited"`
	Files        []file          `json:"files"`
	Attachments  []attachment    `json:"attachments"`
	Blocks       json.RawMessage `json:"blocks"`
	// Message and Previous are set for a change. Where there is no previous message
	// Slack may send an empty list.
	Message  *Body           `json:"message"`
	Previous json.RawMessage `json:"previous_message"`
	// DeletedTS is set for a deletion.
	DeletedTS string `json:"deleted_ts"`
}

// before returns the message before a change; nil if it is not known.
func (b Body) before() *Body {
	var old *Body
	if json.Unmarshal(b.Previous, &old) != nil {
		return nil
	}
	return old
}

type edited struct {
	User string `json:"user"`
	TS   string `json:"ts"`
}

type attachment struct {
	Pretext    string `json:"pretext"`
	Title      string `json:"title"`
	Text       string `json:"text"`
	Fallback   string `json:"fallback"`
	AuthorName string `json:"author_name"`
	IsShare    bool   `json:"is_share"`
	// FromURL is the address of which Slack shows a preview.
	FromURL string `json:"from_url"`
	Fields  []struct {
		Title string `json:"title"`
		Value string `json:"value"`
	} `json:"fields"`
	Blocks json.RawMessage `json:"blocks"`
	// MessageBlocks are the blocks of a shared message.
	MessageBlocks []struct {
		Message struct {
			Blocks json.RawMessage `json:"blocks"`
		} `json:"message"`
	} `json:"message_blocks"`
}

type file struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Title      string `json:"title"`
	MIME       string `json:"mimetype"`
	Subtype    string `json:"subtype"`
	Mode       string `json:"mode"`
	Size       int64  `json:"size"`
	External   bool   `json:"is_external"`
	Private    string `json:"url_private"`
	Download   string `json:"url_private_download"`
	FileAccess string `json:"file_access"`
}

// A callback is the payload of the Events API.
type callback struct {
	TeamID string `json:"team_id"`
	Event  Body   `json:"event"`
}

// A press is the payload of an interaction.
type press struct {
	Type      string `json:"type"`
	TriggerID string `json:"trigger_id"`
	User      struct {
		ID       string `json:"id"`
		Username string `json:"username"`
		Name     string `json:"name"`
	} `json:"user"`
	Channel struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"channel"`
	Container struct {
		MessageTS string `json:"message_ts"`
		ChannelID string `json:"channel_id"`
		ThreadTS  string `json:"thread_ts"`
	} `json:"container"`
	Message struct {
		TS       string `json:"ts"`
		ThreadTS string `json:"thread_ts"`
	} `json:"message"`
	Actions []struct {
		Type     string `json:"type"`
		ActionID string `json:"action_id"`
		Value    string `json:"value"`
		ActionTS string `json:"action_ts"`
	} `json:"actions"`
}

// A slash is the payload of a slash command.
type slash struct {
	Command     string `json:"command"`
	Text        string `json:"text"`
	UserID      string `json:"user_id"`
	UserName    string `json:"user_name"`
	ChannelID   string `json:"channel_id"`
	ChannelName string `json:"channel_name"`
	TriggerID   string `json:"trigger_id"`
	ResponseURL string `json:"response_url"`
}

// Time returns the time of a ts; ok is false if ts is invalid.
func Time(ts string) (time.Time, bool) {
	sec, frac, _ := strings.Cut(ts, ".")
	s, err := strconv.ParseInt(sec, 10, 64)
	if err != nil || s <= 0 || s > math.MaxInt32*16 {
		return time.Time{}, false
	}
	var micros int64
	if frac != "" {
		if micros, err = strconv.ParseInt((frac + "000000")[:6], 10, 64); err != nil || micros < 0 {
			return time.Time{}, false
		}
	}
	return time.Unix(s, micros*1000).UTC(), true
}

// TS returns the ts of a time.
func TS(t time.Time) string {
	return strconv.FormatInt(t.Unix(), 10) + "." + strconv.FormatInt(1e6+int64(t.Nanosecond()/1000), 10)[1:]
}

// After reports whether ts a is after ts b; the empty ts is before all others.
func After(a, b string) bool {
	at, ok := Time(a)
	if !ok {
		return false
	}
	bt, ok := Time(b)
	return !ok || at.After(bt)
}
