package app_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"hermesd/cmd/internal/admin"
	"hermesd/internal/sim/telegram"
)

// A group that becomes a supergroup has a new ID. Everything that names the old one
// remains valid: lists, prompts, the home channel, targets, scheduled prompts; also
// after a restart.
func TestChatMigrationMovesAllData(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	bob := w.tg.AddUser(telegram.Person{FirstName: "Bob"})
	old := w.tg.AddChat(telegram.ChatOptions{Type: telegram.Group, Title: "home", Members: []*telegram.User{w.ann, bob}, Bots: []*telegram.Bot{w.bot}})
	id := strconv.FormatInt(old.ID(), 10)
	w.writeConfig("access: {owners: [424242], allow_from: [$ANN]}\n", fmt.Sprintf(
		"require_mention: true\nfree_response_chats: ['%[1]s']\nallowed_chats: ['%[1]s']\ngroup_allowed_chats: ['%[1]s']\nhome_channel: '%[1]s'\nchannel_prompts: {'%[1]s': Here we speak of cats.}\n", id))
	w.start()
	w.waitConnected()
	old.Say(w.ann, `/cron add "every day at 4am" tidy up`)
	w.waitTextIn(old, "tidy up")
	old.Say(bob, "hello")
	w.waitTextIn(old, "echo: hello")
	next := old.Upgrade(w.ann)
	w.waitConfirmed()
	for life := range 2 {
		said := fmt.Sprintf("still here %d", life)
		next.Say(bob, said)
		w.waitTextIn(next, []string{"echo: ", "[end of what was said]\n\n"}[life]+said) // then the overlay contains what was sent
		all := w.model.Requests()
		for _, target := range []string{"telegram", "telegram:" + id} {
			if told := fmt.Sprintf("to %s in life 0", target); life > 0 && !strings.Contains(all[len(all)-1].Newest(), told) {
				t.Errorf("the conversation does not know of %q", told)
			}
		}
		if sent := all[len(all)-1].Body; !strings.Contains(string(sent), "Here we speak of cats.") {
			t.Errorf("the prompt of the chat is lost in life %d", life)
		}
		next.Say(w.ann, "/cron")
		w.waitFor("its scheduled prompt is listed", func() bool {
			return strings.Count(strings.Join(w.visibleTexts(next), "\n"), "tidy up: every day") == life+1
		})
		for _, target := range []string{"telegram", "telegram:" + id} {
			text := fmt.Sprintf("to %s in life %d", target, life)
			if _, err := w.controlClient().Send(w.ctx, admin.Message{To: target, Text: text}, testTimeout); err != nil {
				t.Error(err)
			}
			w.waitTextIn(next, text)
		}
		w.stop()
		w.start()
		w.waitConnected()
	}
}
