"""Messages of Linux, its shell, its loader and its compilers in Chinese, in the English that the rules are written in.

Programs print the C library's messages in the language of the locale: a node with zh_CN has "没有那个文件或目录" where
others have "No such file or directory". Sources: the Chinese translations of glibc, bash, GCC and binutils.
"""

from __future__ import annotations

import re

ENGLISH = {
    "没有那个文件或目录": "No such file or directory",
    "权限不够": "Permission denied",
    "不允许的操作": "Operation not permitted",
    "设备上没有空间": "No space left on device",
    "超出磁盘限额": "Disk quota exceeded",
    "只读文件系统": "Read-only file system",
    "输入/输出错误": "Input/output error",
    "没有那个设备或地址": "No such device or address",
    "没有那个设备": "No such device",
    "设备或资源忙": "Device or resource busy",
    "打开的文件过多": "Too many open files",
    "无法分配内存": "Cannot allocate memory",
    "资源暂时不可用": "Resource temporarily unavailable",
    "地址已在使用": "Address already in use",
    "无法指定被请求的地址": "Cannot assign requested address",
    "拒绝连接": "Connection refused",
    "连接被拒绝": "Connection refused",
    "连接超时": "Connection timed out",
    "连接被对方重设": "Connection reset by peer",
    "连接被对端重置": "Connection reset by peer",
    "没有到主机的路由": "No route to host",
    "网络不可达": "Network is unreachable",
    "断开的管道": "Broken pipe",
    "未知的名称或服务": "Name or service not known",
    "域名解析暂时失败": "Temporary failure in name resolution",
    "可执行文件格式错误": "Exec format error",
    "无法执行二进制文件": "cannot execute binary file",
    "未找到命令": "command not found",
    "找不到命令": "command not found",
    "段错误": "Segmentation fault",
    "总线错误": "Bus error",
    "非法指令": "Illegal instruction",
    "已杀死": "Killed",
    "核心已转储": "core dumped",
    "吐核": "core dumped",
    "加载共享库时出错": "error while loading shared libraries",
    "无法打开共享对象文件": "cannot open shared object file",
    "未定义符号": "undefined symbol",
    "未定义的符号": "undefined symbol",
    "致命错误": "fatal error",
    "错误：": "error: ",
    "找不到 -l": "cannot find -l",
    "文件格式错误": "file in wrong format",
    "没有规则可制作目标": "No rule to make target",
    "未声明": "was not declared",
}
"""The English of each message; a longer one is searched before a shorter one that it contains."""

_ANY = re.compile("|".join(map(re.escape, sorted(ENGLISH, key=len, reverse=True))))
_REFERENCE = re.compile(r"对[‘“'`](?P<symbol>[^‘’“”'`]{1,300})[’”']未定义的引用")
_LINE = re.compile(r"行 ?(?P<number>\d{1,6})(?=[:：])")
UNDEFINED = "未定义的引用"
"""What the linker prints behind the symbol that English has at the end."""


def in_english(line: str) -> str:
    """A line with the known Chinese messages in English; any other text stays as it is."""
    if line.isascii():
        return line
    translated = _ANY.sub(lambda found: ENGLISH[found[0]], _REFERENCE.sub(r"undefined reference to `\g<symbol>'", line))
    return line if translated == line else _LINE.sub(r"line \g<number>", translated).replace("：", ": ")
