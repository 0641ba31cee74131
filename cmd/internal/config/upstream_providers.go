package config

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hermesd/cmd/internal/config/yamlconf"
)

var languageName = regexp.MustCompile(`^[a-z]{2,3}([-_][a-z0-9]{2,8})?$|^[a-z]{4,20}$`)

// A hosted is a provider of upstream Hermes that speaks OpenAI's API or Anthropic's.
type hosted struct {
	baseURL   string
	variables []string // that hold its key, the first that is set
}

// hostedProviders returns providers by upstream's names for them.
func hostedProviders() map[string]hosted {
	of := func(baseURL string, variables ...string) hosted { return hosted{baseURL, variables} }
	return map[string]hosted{
		"nous":           of("https://inference-api.nousresearch.com/v1", "NOUS_API_KEY"),
		"nous-api":       of("https://inference-api.nousresearch.com/v1", "NOUS_API_KEY"),
		"gemini":         of("https://generativelanguage.googleapis.com/v1beta/openai", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
		"google":         of("https://generativelanguage.googleapis.com/v1beta/openai", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
		"zai":            of("https://api.z.ai/api/paas/v4", "GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY"),
		"kimi-coding":    of("https://api.moonshot.ai/v1", "KIMI_API_KEY", "KIMI_CODING_API_KEY"),
		"kimi-coding-cn": of("https://api.moonshot.cn/v1", "KIMI_CN_API_KEY"),
		"minimax":        of("https://api.minimax.io/anthropic", "MINIMAX_API_KEY"),
		"minimax-cn":     of("https://api.minimaxi.com/anthropic", "MINIMAX_CN_API_KEY"),
		"huggingface":    of("https://router.huggingface.co/v1", "HF_TOKEN"),
		"nvidia":         of("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
		"xiaomi":         of("https://api.xiaomimimo.com/v1", "XIAOMI_API_KEY"),
		"arcee":          of("https://api.arcee.ai/api/v1", "ARCEEAI_API_KEY"),
		"ollama-cloud":   of("https://ollama.com/v1", "OLLAMA_API_KEY"),
		"deepinfra":      of("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
		"kilocode":       of("https://api.kilo.ai/api/gateway", "KILOCODE_API_KEY"),
		"ai-gateway":     of("https://ai-gateway.vercel.sh/v1", "AI_GATEWAY_API_KEY"),
		"opencode-zen":   of("https://opencode.ai/zen/v1", "OPENCODE_ZEN_API_KEY"),
		"opencode-go":    of("https://opencode.ai/zen/go/v1", "OPENCODE_GO_API_KEY"),
		"deepseek":       of("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
		"xai":            of("https://api.x.ai/v1", "XAI_API_KEY"),
		"groq":           of("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
		"mistral":        of("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
		"fireworks":      of("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
		"alibaba":        of("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
		"zai-cn":         of("https://open.bigmodel.cn/api/paas/v4", "GLM_CN_API_KEY"),
		"stepfun":        of("https://api.stepfun.ai/step_plan/v1", "STEPFUN_API_KEY"),
		"gmi":            of("https://api.gmi-serving.com/v1", "GMI_API_KEY"),
		"lmstudio":       of("http://127.0.0.1:1234/v1", "LM_API_KEY"),
		"local":          of(""),
	}
}

// otherProviders returns names of providers of upstream Hermes whose API or login
// hermesd does not have.
func otherProviders() []string {
	return []string{
		"openai-codex", "codex", "copilot", "copilot-acp", "bedrock", "vertex", "azure-foundry", "qwen-oauth", "google-gemini-cli",
		"anthropic-oauth", "minimax-oauth", "xai-oauth", "moa", "novita", "tencent-tokenhub", "alibaba-coding-plan",
	}
}

// providerAliases returns other names that upstream Hermes has for providers.
func providerAliases() map[string]string {
	m := make(map[string]string)
	for name, aliases := range map[string]string{
		"anthropic":           "claude claude-code",
		"openai":              "openai-api",
		"zai":                 "glm z-ai z.ai zhipu",
		"zai-cn":              "glm-cn zhipu-cn",
		"xai":                 "x-ai x.ai grok",
		"xai-oauth":           "grok-oauth x-ai-oauth xai-grok-oauth",
		"nvidia":              "nim nvidia-nim build-nvidia nemotron",
		"kimi-coding":         "kimi kimi-for-coding moonshot",
		"stepfun":             "step stepfun-coding-plan",
		"minimax-cn":          "minimax-china minimax_cn",
		"copilot":             "github github-copilot",
		"copilot-acp":         "github-copilot-acp",
		"opencode-zen":        "opencode zen",
		"opencode-go":         "go opencode-go-sub",
		"kilocode":            "kilo kilo-code kilo-gateway",
		"deepseek":            "deep-seek",
		"alibaba":             "dashscope aliyun qwen alibaba-cloud",
		"alibaba-coding-plan": "alibaba_coding alibaba-coding alibaba_coding_plan",
		"google-gemini-cli":   "gemini-cli gemini-oauth",
		"huggingface":         "hf hugging-face huggingface-hub",
		"novita":              "novita-ai novitaai",
		"xiaomi":              "mimo xiaomi-mimo",
		"tencent-tokenhub":    "tencent tokenhub tencent-cloud tencentmaas",
		"bedrock":             "aws aws-bedrock amazon-bedrock amazon",
		"arcee":               "arcee-ai arceeai",
		"gmi":                 "gmi-cloud gmicloud",
		"lmstudio":            "lm-studio lm_studio",
		"local":               "vllm llamacpp llama.cpp llama-cpp",
	} {
		for alias := range strings.FieldsSeq(aliases) {
			m[alias] = name
		}
	}
	return m
}

// provided returns a section that names a provider with one that exists here: for a
// provider that speaks a known API, or an entry of providers or custom_providers, the
// API, the address and the variable of the key.
func (l *loader) provided(path string, n *yaml.Node) *yaml.Node {
	m := mapping(n)
	var name, env *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k, v := n.Content[i], n.Content[i+1]; k.Value {
		case "key_env", "api_key_env":
			env = yamlconf.Deref(v)
		case "provider":
			name = yamlconf.Deref(v)
			m.Content = append(m.Content, k, v)
		default:
			m.Content = append(m.Content, k, v)
		}
	}
	if env != nil && variableName.MatchString(env.Value) {
		put(m, scalar(env, "api_key"), scalar(env, "${"+env.Value+":-}"))
	}
	if name == nil || name.Kind != yaml.ScalarNode {
		return m
	}
	if own := l.namedProvider(name.Value); own != nil {
		set(m, "provider", scalar(name, "auto"))
		for _, key := range []string{"base_url", "api", "url"} {
			if v := get(own, key); v != nil && !empty(v) {
				put(m, scalar(name, "base_url"), v)
			}
		}
		if v := get(own, "api_key"); v != nil {
			put(m, scalar(name, "api_key"), v)
		}
		for _, key := range []string{"key_env", "api_key_env"} {
			if v := get(own, key); v != nil && variableName.MatchString(v.Value) {
				put(m, scalar(name, "api_key"), scalar(name, "${"+v.Value+":-}"))
			}
		}
		return m
	}
	provider := strings.ToLower(strings.TrimSpace(name.Value))
	provider = cmp.Or(providerAliases()[provider], provider)
	if ServiceOf(provider).Name != "" || provider == "auto" || provider == "main" {
		set(m, "provider", scalar(name, provider))
		return m
	}
	if h, ok := hostedProviders()[provider]; ok {
		return l.hosted(path, m, scalar(name, provider), h)
	}
	if slices.Contains(otherProviders(), provider) {
		l.WarnNode(name, path+".provider", "hermesd does not speak to %s: another provider is chosen, as for auto", provider)
		set(m, "provider", scalar(name, "auto"))
	}
	return m
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// hosted sets the API, the address and the key of a provider in m.
func (l *loader) hosted(path string, m, name *yaml.Node, h hosted) *yaml.Node {
	set(m, "provider", scalar(name, ofURL(h.baseURL)))
	if at := get(m, "base_url"); at == nil || empty(at) || h.baseURL != "" && !sameHost(at.Value, h.baseURL) && ServiceOf(ofURL(at.Value)).Variable != "" {
		set(m, "base_url", scalar(name, h.baseURL)) // the address in upstream's example is that of OpenRouter
	}
	if key := get(m, "api_key"); key != nil && !empty(key) || len(h.variables) == 0 {
		return m
	}
	for _, v := range h.variables {
		if s, ok := l.look(v); ok && s != "" {
			set(m, "api_key", scalar(name, "${"+v+"}"))
			return m
		}
	}
	if name.Value != "lmstudio" {
		l.WarnNode(name, path+".api_key", "there is no key for %s: set %s in .env; until then every turn fails", name.Value, h.variables[0])
	}
	return m
}

// namedProvider returns the entry of providers or custom_providers with that name; nil
// if there is none, or it has no address.
func (l *loader) namedProvider(name string) *yaml.Node {
	name = strings.TrimPrefix(name, "custom:")
	if p := get(get(l.root, "providers"), name); p != nil && hasAddress(p) {
		return p
	}
	if all := get(l.root, "custom_providers"); all != nil {
		for _, p := range all.Content {
			if n := get(yamlconf.Deref(p), "name"); n != nil && strings.EqualFold(n.Value, name) && hasAddress(yamlconf.Deref(p)) {
				return yamlconf.Deref(p)
			}
		}
	}
	return nil
}

// hasAddress reports whether an entry of providers or custom_providers has an address.
func hasAddress(n *yaml.Node) bool {
	return slices.ContainsFunc([]string{"base_url", "api", "url"}, func(k string) bool { v := get(n, k); return v != nil && !empty(v) })
}

// foreign implements the option Foreign of package yamlconf. There is no warning about
// variables, nor about providers if each of them can be named as a provider.
func (l *loader) foreign(path string) (advice string, ok bool) {
	if environmentName.MatchString(path) {
		if v := get(l.root, path); v != nil && v.Kind == yaml.ScalarNode {
			return yamlconf.Handled, true
		}
	}
	if all := get(l.root, "providers"); path == "providers" && all != nil && all.Kind == yaml.MappingNode && len(all.Content) > 0 {
		for i := 1; i < len(all.Content); i += 2 {
			if !hasAddress(yamlconf.Deref(all.Content[i])) {
				return upstreamKey(path)
			}
		}
		return yamlconf.Handled, true
	}
	return upstreamKey(path)
}

func set(m *yaml.Node, key string, v *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content[i+1] = v
			return
		}
	}
	m.Content = append(m.Content, scalar(v, key), v)
}

// sameHost reports whether two addresses have the same host.
func sameHost(a, b string) bool {
	u, err1 := url.Parse(a)
	v, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && strings.EqualFold(u.Hostname(), v.Hostname())
}
