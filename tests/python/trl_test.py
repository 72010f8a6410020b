"""TRL's GRPOTrainer with rewards of a real gym, on the CPU."""

import contextlib
import functools
import os
import re
import shutil
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from common import RIGHT, TASK, UNPREPARABLE, WRONG, fake_service
from lathe_gym import Client, LocalService, Scoring
from lathe_gym.env.trl import reward_function

SOURCE = Path(os.environ["LATHE_SOURCE"])
ANSWERS = [RIGHT, WRONG, "I cannot."]


def tokenizer() -> PreTrainedTokenizerFast:
    """Its words are whole answers, so that a random model gives some that pass."""
    words = ["<pad>", "<end>", "Write", *ANSWERS]
    made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<end>", clean_up_tokenization_spaces=False)


def small_model(words: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM(Qwen2Config(
        vocab_size=len(words), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, pad_token_id=0, bos_token_id=None, eos_token_id=1))


def one_step(*_, **__) -> GRPOConfig:
    return GRPOConfig(
        output_dir="trained", max_steps=1, per_device_train_batch_size=4, num_generations=4, max_completion_length=2,
        save_strategy="no", report_to=[], use_cpu=True, bf16=False)


def share_of_right(model: Qwen2ForCausalLM, words: PreTrainedTokenizerFast) -> float:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[words.convert_tokens_to_ids("Write")]])).logits[0, -1]
    return float(torch.softmax(logits, -1)[words.convert_tokens_to_ids(RIGHT)])


class GRPO(unittest.TestCase):
    def test_two_steps_make_right_kernels_more_likely(self):
        service = self.enterContext(LocalService(device="cpu"))
        client = self.enterContext(Client(service.url))
        folder = self.enterContext(tempfile.TemporaryDirectory())
        torch.manual_seed(7)
        words = tokenizer()
        model = small_model(words)
        before = share_of_right(model, words)
        rewards = reward_function(client, Scoring("correct", depth="verify"))
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=rewards,
            args=GRPOConfig(
                output_dir=folder, max_steps=2, per_device_train_batch_size=16, num_generations=16,
                max_completion_length=1, learning_rate=3e-2, logging_steps=1, save_strategy="no", report_to=[],
                use_cpu=True, seed=7, bf16=False),
            train_dataset=Dataset.from_list([{"prompt": "Write", "task": TASK}] * 8),
            processing_class=words,
        )
        trainer.train()
        logged = [one for one in trainer.state.log_history if "reward" in one]
        self.assertEqual(len(logged), 2)
        for one in logged:
            self.assertTrue(0 <= one["reward"] <= 1, one)
            self.assertIn("rewards/lathe_correct/mean", one)
        self.assertTrue(any("lathe/PASS" in one for one in logged), logged)
        self.assertTrue(any("lathe/BUILD_FAILED" in one for one in logged), logged)
        self.assertGreater(share_of_right(model, words), before)

    def test_a_machine_that_failed_has_no_reward(self):
        service = self.enterContext(fake_service())
        client = self.enterContext(Client(service.url))
        rewards = reward_function(client, task=TASK)
        conversation = [{"role": "assistant", "content": "machine_fails too"}]
        given = rewards(completions=["machine_fails", "something", conversation], prompts=["", "", ""])
        self.assertEqual([one is None for one in given], [True, False, True])

    def test_a_message_in_parts_is_its_text(self):
        service = self.enterContext(LocalService(device="cpu"))
        client = self.enterContext(Client(service.url))
        rewards = reward_function(client, Scoring("correct", depth="verify"), task=TASK)
        parts = [{"type": "text", "text": RIGHT[:40]}, {"type": "text", "text": RIGHT[40:]}]
        conversations = [[{"role": "assistant", "content": content}] for content in (parts, RIGHT, None)]
        self.assertEqual(rewards(completions=conversations, prompts=["", "", ""]), [1, 1, 0])

    def test_completions_of_no_task_are_refused_with_what_helps(self):
        with self.assertRaisesRegex(ValueError, "column `task`"):
            reward_function(self.enterContext(Client("http://nobody")))(completions=["a"], prompts=[""])

    def test_the_readmes_lines_run(self):
        """With a small model of the name that they load, a service of one task, and one step."""
        tasks = self.enterContext(tempfile.TemporaryDirectory())
        shutil.copy(SOURCE / "tasks" / "softmax_rows.toml", tasks)
        service = self.enterContext(LocalService(device="cpu", more=["--tasks", tasks]))
        self.enterContext(unittest.mock.patch.dict(os.environ, {"LATHE_URL": service.url}))
        self.enterContext(contextlib.chdir(self.enterContext(tempfile.TemporaryDirectory())))
        (lines,) = re.findall(r"```python\n(.*?)```", (SOURCE / "README.md").read_text(), re.DOTALL)
        (name,) = re.findall(r'GRPOTrainer\("(.*?)"', lines)
        words = tokenizer()
        words.chat_template = "{{ messages[0]['content'] }}"
        small_model(words).save_pretrained(name)
        trainer = functools.partial(GRPOTrainer, processing_class=words)
        run = {}
        with unittest.mock.patch("trl.GRPOTrainer", trainer), unittest.mock.patch("trl.GRPOConfig", one_step):
            exec(lines, run)
        (row,) = run["rows"]
        self.assertEqual(row["task"], "softmax_rows")

    def test_why_a_task_has_no_rewards_is_a_warning(self):
        service = self.enterContext(LocalService(device="cpu"))
        client = self.enterContext(Client(service.url))
        rewards = reward_function(client, Scoring("correct", depth="verify"))
        with self.assertWarnsRegex(RuntimeWarning, "could not be prepared: .*no finite error bound"):
            given = rewards(completions=[RIGHT, RIGHT], prompts=["", ""], task=[UNPREPARABLE, TASK])
        self.assertEqual(given, [None, 1])


if __name__ == "__main__":
    unittest.main()
