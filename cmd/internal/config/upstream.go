package config

import (
	"slices"
	"strings"
)

// movedKeys returns the keys that upstream Hermes, or people, write in another
// place, and where they stand here.
func movedKeys() map[string]string {
	return map[string]string{
		"telegram":                              "platforms.telegram",
		"discord":                               "platforms.discord",
		"slack":                                 "platforms.slack",
		"workspace":                             "terminal.cwd",
		"gateway.streaming":                     "streaming",
		"gateway.group_sessions_per_user":       "group_sessions_per_user",
		"gateway.thread_sessions_per_user":      "thread_sessions_per_user",
		"gateway.session_reset":                 "session_reset",
		"agent.gateway_timeout":                 "gateway.turn_timeout",
		"agent.gateway_auto_continue_freshness": "gateway.auto_continue_freshness",
		"agent.restart_drain_timeout":           "gateway.drain_timeout",
	}
}

// upstreamKey reports whether upstream Hermes has the key at path though we do
// not, and what there is to say about it. Upstream writes a platform's keys in
// its own top-level section too.
func upstreamKey(path string) (note string, ok bool) {
	for _, p := range []string{"telegram", "discord", "slack"} {
		if path == p || strings.HasPrefix(path, p+".") {
			path = "platforms." + path
		}
	}
	parts := strings.Split(path, ".")
	for _, k := range upstreamKeys() {
		pattern, note, _ := strings.Cut(k, " ")
		if matches(strings.Split(pattern, "."), parts) {
			if note != "" {
				note = "; " + note
			}
			return note, true
		}
	}
	return "", false
}

// matches reports whether parts are what pattern says. A star is any one part.
func matches(pattern, parts []string) bool {
	if len(parts) != len(pattern) {
		return false
	}
	for i, p := range pattern {
		if p != "*" && p != parts[i] {
			return false
		}
	}
	return true
}

// upstreamKeys returns the keys and whole sections of upstream Hermes that we do
// not have, and behind a space what the operator may do instead. A key that we
// do have is never looked up here, so a section may stand here until it exists.
func upstreamKeys() []string {
	keys := strings.Split(strings.TrimSpace(`
_config_version
toolsets use platforms.<platform>.toolsets
custom_providers use model.provider custom with model.base_url
fallback_model use fallback_providers
model.ollama_num_ctx
model.streaming use streaming.enabled
agent.tool_use_enforcement
agent.task_completion_guidance
agent.parallel_tool_call_guidance
agent.environment_probe
agent.environment_hint
agent.gateway_timeout_warning
agent.gateway_notify_interval
agent.clarify_timeout
agent.restart_after_turn_timeout
agent.cron_drain_timeout
agent.prefill_messages_file
agent.load_soul
browser
checkpoints
compression
auxiliary
context
context_file_max_chars
context_file_read_timeout
memory
skills
delegation
prefill_messages_file
personalities
platform_hints
mcp_servers
honcho
command_allowlist
quick_commands
sessions
tool_budget
hooks
stt
voice
max_concurrent_sessions use gateway.max_concurrent_turns
cron
approvals
session_reset.notify
session_reset.notify_exclude_platforms
session_reset.bg_process_max_age_hours
reset_by_platform
reset_by_type
default_reset_policy use session_reset
stt_echo_transcripts
filter_silence_narration
write_sessions_json
session_store_max_age_days
gateway.session_store_max_age_days
gateway.write_sessions_json
gateway.filter_silence_narration
gateway.delivery_ledger the outbox is always kept
gateway.message_timestamps
gateway.bot_loop_guard bots are always limited
gateway.systemd_watchdog_seconds
gateway.loop_watchdog
gateway.multiplex_profiles
gateway.proxy_url use platforms.<platform>.proxy
gateway.platforms use platforms
streaming.mode use streaming.enabled
streaming.transport
streaming.buffer_threshold
streaming.cursor
streaming.fresh_final_after_seconds
display.personality
display.resume_display
display.show_reasoning
display.reasoning_style
display.busy_ack_enabled
display.background_process_notifications
display.tool_progress_grouping
display.cleanup_progress
display.tool_preview_length
display.interim_assistant_messages
display.long_running_notifications
display.memory_notifications
display.suppress_warning_notifications
display.live_status
display.platforms
display.streaming use streaming.enabled
platforms.*.api_key
platforms.*.extra write its keys one level up
platforms.*.typing_indicator
platforms.*.typing_status_text
platforms.*.gateway_restart_notification use gateway.restart_notice
platforms.*.channel_overrides
platforms.*.display_name
platforms.*.group_allow_from use allow_from
platforms.*.group_allowed_chats use allowed_chats, which lets everybody in these chats speak as a guest
platforms.*.group_allow_admin_from use allow_admin_from
platforms.*.user_allowed_commands
platforms.*.group_user_allowed_commands
platforms.*.exclusive_bot_mentions
platforms.*.bots_require_mention
platforms.*.guest_mode
platforms.*.observe_unmentioned_group_messages
platforms.*.ignored_threads
platforms.*.ignore_root_dm
platforms.*.reactions
platforms.*.base_url use api_url
platforms.*.local_mode
platforms.*.dm_topics
platforms.*.group_topics
platforms.*.rich_messages
platforms.*.rich_drafts
platforms.*.allow_cjk_rich_messages
platforms.*.disable_link_previews
platforms.*.notifications
platforms.*.auto_thread
platforms.*.ignored_channels
platforms.*.no_thread_channels
platforms.*.allow_mentions
platforms.*.thread_require_mention
platforms.*.require_mention_channels
platforms.*.ignore_other_user_mentions
platforms.*.strict_mention
platforms.*.reply_in_thread
platforms.*.reply_broadcast
platforms.*.rich_blocks
platforms.*.native_task_cards
platforms.*.dm_top_level_threads_as_sessions
terminal.backend
terminal.timeout
terminal.container_cpu
terminal.container_memory
terminal.container_disk
terminal.container_persistent
compression.checkpoint_required
memory.nudge_interval
memory.flush_min_turns
skills.creation_nudge_interval
skills.template_vars
skills.inline_shell
sessions.write_json_snapshots
security.tirith_enabled
security.tirith_timeout
security.tirith_fail_open
gateway.restart_loop_guard
cron.provider
cron.wrap_response
cron.mirror_delivery
cron.media_send_timeout_seconds
cron.cleanup_timeout_seconds
cron.failure_nudge_threshold
cron.preflight
approvals.cron_mode
approvals.unattended_mode
`), "\n")
	for _, p := range strings.Fields("whatsapp signal matrix mattermost email sms feishu bluebubbles weixin dingtalk wecom qq qqbot google_chat webhook api_server") {
		keys = append(keys, p+" hermesd has no adapter for it", "platforms."+p+" hermesd has no adapter for it")
	}
	return slices.Clip(keys)
}
