package telegram

import "encoding/json"

// A Person is a user as the Bot API describes it; bots are persons too.
type Person struct {
	ID           int64  `json:"id"`
	IsBot        bool   `json:"is_bot"`
	FirstName    string `json:"first_name"`
	LastName     string `json:"last_name,omitempty"`
	Username     string `json:"username,omitempty"`
	LanguageCode string `json:"language_code,omitempty"`
}

// An Entity marks a part of a text. Offset and Length count UTF-16 units.
type Entity struct {
	Type          string  `json:"type"`
	Offset        int     `json:"offset"`
	Length        int     `json:"length"`
	URL           string  `json:"url,omitempty"`
	User          *Person `json:"user,omitempty"`
	Language      string  `json:"language,omitempty"`
	CustomEmojiID string  `json:"custom_emoji_id,omitempty"`
}

func (e Entity) end() int { return e.Offset + e.Length }

// A Button is one button of an inline keyboard.
type Button struct {
	Text string `json:"text"`
	Data string `json:"callback_data,omitempty"`
	URL  string `json:"url,omitempty"`
}

type wireMe struct {
	Person
	CanJoinGroups           bool `json:"can_join_groups"`
	CanReadAllGroupMessages bool `json:"can_read_all_group_messages"`
	SupportsInlineQueries   bool `json:"supports_inline_queries"`
	CanConnectToBusiness    bool `json:"can_connect_to_business"`
	HasMainWebApp           bool `json:"has_main_web_app"`
	HasTopicsEnabled        bool `json:"has_topics_enabled"`
}

type wireChat struct {
	ID        int64  `json:"id"`
	Type      string `json:"type"`
	Title     string `json:"title,omitempty"`
	Username  string `json:"username,omitempty"`
	FirstName string `json:"first_name,omitempty"`
	LastName  string `json:"last_name,omitempty"`
	IsForum   bool   `json:"is_forum,omitempty"`
}

type wireFullChat struct {
	wireChat
	AccentColorID    int      `json:"accent_color_id"`
	MaxReactionCount int      `json:"max_reaction_count"`
	ActiveUsernames  []string `json:"active_usernames,omitempty"`
}

type wireMember struct {
	Status      string `json:"status"`
	User        Person `json:"user"`
	UntilDate   *int64 `json:"until_date,omitempty"`
	IsAnonymous *bool  `json:"is_anonymous,omitempty"`
}

type wireMemberUpdate struct {
	Chat wireChat   `json:"chat"`
	From Person     `json:"from"`
	Date int64      `json:"date"`
	Old  wireMember `json:"old_chat_member"`
	New  wireMember `json:"new_chat_member"`
}

type wireFile struct {
	FileID       string `json:"file_id"`
	FileUniqueID string `json:"file_unique_id"`
	FileSize     int64  `json:"file_size,omitempty"`
	FilePath     string `json:"file_path,omitempty"`
}

// A wireMedia describes an attachment of any kind. Fields that a kind does not
// have are empty and omitted.
type wireMedia struct {
	FileID       string `json:"file_id"`
	FileUniqueID string `json:"file_unique_id"`
	FileSize     int64  `json:"file_size,omitempty"`
	FileName     string `json:"file_name,omitempty"`
	MIMEType     string `json:"mime_type,omitempty"`
	Width        int    `json:"width,omitempty"`
	Height       int    `json:"height,omitempty"`
	Duration     *int   `json:"duration,omitempty"`
	Type         string `json:"type,omitempty"`
	Emoji        string `json:"emoji,omitempty"`
	IsAnimated   *bool  `json:"is_animated,omitempty"`
	IsVideo      *bool  `json:"is_video,omitempty"`
}

type wireLocation struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

type wireQuote struct {
	Text     string   `json:"text"`
	Entities []Entity `json:"entities,omitempty"`
	Position int      `json:"position"`
	IsManual bool     `json:"is_manual,omitempty"`
}

type wireTopic struct {
	Name      string `json:"name"`
	IconColor int    `json:"icon_color"`
}

type wireForumTopic struct {
	MessageThreadID int    `json:"message_thread_id"`
	Name            string `json:"name"`
	IconColor       int    `json:"icon_color"`
}

type wireMessage struct {
	MessageID       int             `json:"message_id"`
	ThreadID        int             `json:"message_thread_id,omitempty"`
	From            *Person         `json:"from,omitempty"`
	SenderChat      *wireChat       `json:"sender_chat,omitempty"`
	Chat            wireChat        `json:"chat"`
	Date            int64           `json:"date"`
	EditDate        int64           `json:"edit_date,omitempty"`
	IsTopicMessage  bool            `json:"is_topic_message,omitempty"`
	ReplyTo         *wireMessage    `json:"reply_to_message,omitempty"`
	Quote           *wireQuote      `json:"quote,omitempty"`
	MediaGroupID    string          `json:"media_group_id,omitempty"`
	Text            string          `json:"text,omitempty"`
	Entities        []Entity        `json:"entities,omitempty"`
	Animation       *wireMedia      `json:"animation,omitempty"`
	Audio           *wireMedia      `json:"audio,omitempty"`
	Document        *wireMedia      `json:"document,omitempty"`
	Photo           []wireMedia     `json:"photo,omitempty"`
	Sticker         *wireMedia      `json:"sticker,omitempty"`
	Video           *wireMedia      `json:"video,omitempty"`
	VideoNote       *wireMedia      `json:"video_note,omitempty"`
	Voice           *wireMedia      `json:"voice,omitempty"`
	Caption         string          `json:"caption,omitempty"`
	CaptionEntities []Entity        `json:"caption_entities,omitempty"`
	Location        *wireLocation   `json:"location,omitempty"`
	NewChatMembers  []Person        `json:"new_chat_members,omitempty"`
	LeftChatMember  *Person         `json:"left_chat_member,omitempty"`
	TopicCreated    *wireTopic      `json:"forum_topic_created,omitempty"`
	MigrateTo       int64           `json:"migrate_to_chat_id,omitempty"`
	MigrateFrom     int64           `json:"migrate_from_chat_id,omitempty"`
	Markup          json.RawMessage `json:"reply_markup,omitempty"`
}

type wireCallback struct {
	ID           string `json:"id"`
	From         Person `json:"from"`
	Message      any    `json:"message,omitempty"`
	ChatInstance string `json:"chat_instance"`
	Data         string `json:"data,omitempty"`
}

type wireInaccessible struct {
	Chat      wireChat `json:"chat"`
	MessageID int      `json:"message_id"`
	Date      int64    `json:"date"`
}

type wireReaction struct {
	Type  string `json:"type"`
	Emoji string `json:"emoji,omitempty"`
}

type wireReactionUpdate struct {
	Chat      wireChat       `json:"chat"`
	MessageID int            `json:"message_id"`
	User      Person         `json:"user"`
	Date      int64          `json:"date"`
	Old       []wireReaction `json:"old_reaction"`
	New       []wireReaction `json:"new_reaction"`
}

type wireWebhook struct {
	URL            string   `json:"url"`
	Certificate    bool     `json:"has_custom_certificate"`
	Pending        int      `json:"pending_update_count"`
	LastErrorDate  int64    `json:"last_error_date,omitempty"`
	LastError      string   `json:"last_error_message,omitempty"`
	MaxConnections int      `json:"max_connections,omitempty"`
	IPAddress      string   `json:"ip_address,omitempty"`
	Allowed        []string `json:"allowed_updates,omitempty"`
}

type wireCommand struct {
	Command     string `json:"command"`
	Description string `json:"description"`
}
