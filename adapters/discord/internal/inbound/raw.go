// Package inbound converts Discord's raw events to inbound events, and keeps a
// directory of channels. Conversion is pure: the same event, channel and
// converter give the same result.
package inbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// errUnreadable is the error of an event that does not have the documented form.
var errUnreadable = errors.New("unreadable event")

// A message holds the fields in use of Discord's message object.
type message struct {
	ID           string        `json:"id"`
	Channel      string        `json:"channel_id"`
	Guild        string        `json:"guild_id"`
	Type         int           `json:"type"`
	Content      string        `json:"content"`
	Author       *user         `json:"author"`
	Member       *member       `json:"member"`
	At           string        `json:"timestamp"`
	Edited       string        `json:"edited_timestamp"`
	Mentions     []*user       `json:"mentions"`
	RoleMentions []string      `json:"mention_roles"`
	Attachments  []*attachment `json:"attachments"`
	Embeds       []*embed      `json:"embeds"`
	Components   []*component  `json:"components"`
	Stickers     []*named      `json:"sticker_items"`
	Reference    *reference    `json:"message_reference"`
	Referenced   *message      `json:"referenced_message"`
	Snapshots    []*snapshot   `json:"message_snapshots"`
	Poll         *poll         `json:"poll"`
	Webhook      string        `json:"webhook_id"`
	Flags        int           `json:"flags"`
}

type user struct {
	ID         string `json:"id"`
	Username   string `json:"username"`
	GlobalName string `json:"global_name"`
	Bot        bool   `json:"bot"`
}

func (u *user) name() string {
	if u.GlobalName != "" {
		return u.GlobalName
	}
	return u.Username
}

type member struct {
	User  *user    `json:"user"`
	Nick  string   `json:"nick"`
	Roles []string `json:"roles"`
}

type attachment struct {
	ID          string `json:"id"`
	Name        string `json:"filename"`
	Type        string `json:"content_type"`
	Size        int64  `json:"size"`
	URL         string `json:"url"`
	Description string `json:"description"`
}

type embed struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	URL         string   `json:"url"`
	Author      *named   `json:"author"`
	Fields      []*field `json:"fields"`
	Footer      *struct {
		Text string `json:"text"`
	} `json:"footer"`
}

// A component is a part of a message of an app; in its second form (flag 1<<15)
// the whole text is in components.
type component struct {
	Content     string       `json:"content"`     // of a text display
	Description string       `json:"description"` // of a thumbnail, or an item of a gallery
	Components  []*component `json:"components"`
	Accessory   *component   `json:"accessory"`
	Items       []*component `json:"items"`
}

type field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type named struct {
	Name string `json:"name"`
}

// A reference points to the message that this one replies to (type 0) or
// forwards.
type reference struct {
	Kind    int    `json:"type"`
	ID      string `json:"message_id"`
	Channel string `json:"channel_id"`
}

type snapshot struct {
	Message *message `json:"message"`
}

type poll struct {
	Question struct {
		Text string `json:"text"`
	} `json:"question"`
	Answers []*struct {
		Media struct {
			Text string `json:"text"`
		} `json:"poll_media"`
	} `json:"answers"`
}

// An interaction is a pressed button or a slash command.
type interaction struct {
	ID          string   `json:"id"`
	Application string   `json:"application_id"`
	Kind        int      `json:"type"`
	Token       string   `json:"token"`
	Guild       string   `json:"guild_id"`
	Channel     string   `json:"channel_id"`
	Place       *channel `json:"channel"`
	Member      *member  `json:"member"`
	User        *user    `json:"user"`
	Message     *message `json:"message"`
	Data        struct {
		CustomID string    `json:"custom_id"`
		Name     string    `json:"name"`
		Kind     int       `json:"type"`
		Options  []*option `json:"options"`
	} `json:"data"`
}

type option struct {
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value"`
	Options []*option       `json:"options"`
}

// The supported types of interactions.
const (
	kindCommand   = 2
	kindComponent = 3
)

// read decodes raw into v. Fields of an unexpected type are omitted, so that the
// user's text arrives regardless.
func read(raw json.RawMessage, v any) error {
	err := json.Unmarshal(raw, v)
	var wrong *json.UnmarshalTypeError
	if err != nil && !errors.As(err, &wrong) {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return nil
}

// Snowflake returns the numeric value of an ID; ok is false if it is invalid.
func Snowflake(id string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(id, 10, 64)
	return n, err == nil && n != 0
}

// epoch is the start of Discord's IDs, in Unix milliseconds.
const epoch = 1420070400000

// Time returns the creation time of an ID, the zero Time if the ID is invalid.
func Time(id string) time.Time {
	n, ok := Snowflake(id)
	if !ok {
		return time.Time{}
	}
	return time.UnixMilli(int64(n>>22) + epoch).UTC()
}

// IDAt returns the smallest ID that can be created at t.
func IDAt(t time.Time) string {
	ms := t.UnixMilli() - epoch
	if ms <= 0 {
		return "0"
	}
	return strconv.FormatUint(uint64(ms)<<22, 10)
}

// IDBefore returns the largest ID that is smaller than id, "0" if there is none.
func IDBefore(id string) string {
	n, _ := Snowflake(id)
	return strconv.FormatUint(max(n, 1)-1, 10)
}

// Before reports whether ID a was created before ID b.
func Before(a, b string) bool {
	x, _ := Snowflake(a)
	y, _ := Snowflake(b)
	return x < y
}

// when returns the time stamp of a message, or the time of its ID if there is
// none.
func when(stamp, id string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if t = t.UTC(); err == nil && t.Year() > 1970 && t.Year() < 9999 {
		return t
	}
	return Time(id)
}
