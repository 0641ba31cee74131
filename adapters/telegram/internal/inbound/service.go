package inbound

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-telegram/bot/models"
)

// service reports whether m is a service message of Telegram.
func service(m *models.Message) bool {
	return len(m.NewChatMembers) > 0 || m.LeftChatMember != nil || m.NewChatTitle != "" ||
		len(m.NewChatPhoto) > 0 || m.DeleteChatPhoto || m.GroupChatCreated || m.SupergroupChatCreated ||
		m.ChannelChatCreated || m.MessageAutoDeleteTimerChanged != nil || m.PinnedMessage != nil ||
		m.SuccessfulPayment != nil || m.RefundedPayment != nil || m.UsersShared != nil || m.ChatShared != nil ||
		m.Gift != nil || m.UniqueGift != nil || m.GiftUpgradeSent != nil || m.ConnectedWebsite != "" ||
		m.WriteAccessAllowed != nil || m.PassportData != nil || m.ProximityAlertTriggered != nil ||
		m.BoostAdded != nil || m.ChatBackgroundSet != nil || m.ChecklistTasksDone != nil ||
		m.ChecklistTasksAdded != nil || m.DirectMessagePriceChanged != nil || m.ForumTopicCreated != nil ||
		m.ForumTopicEdited != nil || m.ForumTopicClosed != nil || m.ForumTopicReopened != nil ||
		m.GeneralForumTopicHidden != nil || m.GeneralForumTopicUnhidden != nil || m.GiveawayCreated != nil ||
		m.Giveaway != nil || m.GiveawayWinners != nil || m.GiveawayCompleted != nil ||
		m.PaidMessagePriceChanged != nil || m.ChatOwnerLeft != nil || m.ChatOwnerChanged != nil ||
		m.SuggestedPostApproved != nil || m.SuggestedPostApprovalFailed != nil || m.SuggestedPostDeclined != nil ||
		m.SuggestedPostPaid != nil || m.SuggestedPostRefunded != nil || m.VideoChatScheduled != nil ||
		m.VideoChatStarted != nil || m.VideoChatEnded != nil || m.VideoChatParticipantsInvited != nil ||
		m.ManagedBotCreated != nil || m.PollOptionAdded != nil || m.PollOptionDeleted != nil ||
		m.CommunityChatAdded != nil || m.CommunityChatJoined != nil || m.CommunityChatRemoved != nil
}

// knownFields returns the names of the fields of messages that the library
// decodes.
var knownFields = sync.OnceValue(func() map[string]bool {
	known := map[string]bool{}
	for f := range reflect.TypeFor[models.Message]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known[name] = true
	}
	return known
})

// participles are the last words of names of service messages that do not end in
// "ed".
var participles = []string{"done", "hidden", "left", "paid", "sent", "set", "unhidden"}

// newerService reports whether a message without readable content is a service
// message that is newer than the library. The Bot API names service messages by
// what was done (poll_option_added, chat_owner_left) and content by what it is
// (rich_message, live_photo).
func newerService(fields map[string]json.RawMessage) bool {
	for name := range fields {
		word := name[strings.LastIndexByte(name, '_')+1:]
		if !knownFields()[name] && (strings.HasSuffix(word, "ed") || slices.Contains(participles, word)) {
			return true
		}
	}
	return false
}
