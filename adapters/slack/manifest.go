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

// manifestCommands is the maximum number of slash commands of an app.
const manifestCommands = 50

// object is one object of a manifest. The library's types omit false values, for
// which Slack then uses defaults of its own.
type object = map[string]any

// Manifest returns, as JSON, the manifest of an app that supports all functions
// of the adapter. It is pasted where a new app is created "from a manifest".
// Slack stores an app's commands only there. say translates the texts. Commands
// whose names Slack reserves are omitted; all of them work after /hermes.
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
	if err != nil { // all its values can be encoded
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

// reserved reports whether Slack reserves the name of a command.
func reserved(name string) bool {
	return slices.Contains(strings.Fields(`/active /apps /archive /away /call /canvas /collapse /dm /dnd /expand /feed
		/feedback /files /help /huddle /invite /invite_people /join /keys /leave /list /me /msg /mute /open /part /people
		/pref /prefs /rename /remind /remove /search /shortcuts /shrug /star /status /todo /topic /unarchive /who /workflow`), name)
}
