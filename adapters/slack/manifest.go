package slack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hermesd/adapters/slack/internal/inbound"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
)

// manifestCommands is how many slash commands one app can have.
const manifestCommands = 50

// object is one object of a manifest. The library's own types leave out what is
// false, and then Slack does as it likes.
type object = map[string]any

// Manifest returns, as JSON, the manifest of an app with which the adapter can
// do all that it does: to be pasted where a new app is made "from a manifest".
// Slack keeps its commands there and nowhere else. What is not a command's own is
// said by say. Commands whose names Slack
// keeps to itself are left out; behind /hermes they all work.
func Manifest(commands []chat.CommandInfo, say i18n.Printer) string {
	out, err := json.MarshalIndent(object{
		"display_information": object{"name": "Hermes", "description": say.T("Your agent")},
		"features": object{
			"app_home":       object{"home_tab_enabled": false, "messages_tab_enabled": true, "messages_tab_read_only_enabled": false},
			"bot_user":       object{"display_name": "hermes", "always_online": true},
			"slash_commands": slashCommands(commands, say),
		},
		"oauth_config": object{"scopes": object{"bot": scopes()}},
		"settings": object{
			"event_subscriptions":    object{"bot_events": []string{"app_mention", "message.channels", "message.groups", "message.im", "message.mpim"}},
			"interactivity":          object{"is_enabled": true},
			"org_deploy_enabled":     false,
			"socket_mode_enabled":    true,
			"token_rotation_enabled": false,
		},
	}, "", "  ")
	if err != nil { // there is nothing in it that has no JSON
		return fmt.Sprintf("%q", err)
	}
	return string(out)
}

func slashCommands(commands []chat.CommandInfo, say i18n.Printer) []object {
	out := []object{{"command": inbound.General, "description": say.T("Ask, or give any command"), "usage_hint": say.T("[command or question]"), "should_escape": false}}
	seen := map[string]bool{inbound.General: true}
	for _, c := range commands {
		name := "/" + strings.ToLower(strings.TrimPrefix(c.Name, "/"))
		if seen[name] || reserved(name) || name == "/" || len(name) > 32 || strings.ContainsAny(name, " \t") || len(out) == manifestCommands {
			continue
		}
		seen[name] = true
		help := strings.Join(strings.Fields(c.Help), " ")
		if help == "" {
			help = name
		}
		out = append(out, object{"command": name, "description": cut(help, 100), "should_escape": false})
	}
	return out
}

// reserved reports whether Slack has a command of that name itself.
func reserved(name string) bool {
	return slices.Contains(strings.Fields(`/active /apps /archive /away /call /canvas /collapse /dm /dnd /expand /feed
		/feedback /files /help /huddle /invite /invite_people /join /keys /leave /list /me /msg /mute /open /part /people
		/pref /prefs /rename /remind /remove /search /shortcuts /shrug /star /status /todo /topic /unarchive /who /workflow`), name)
}
